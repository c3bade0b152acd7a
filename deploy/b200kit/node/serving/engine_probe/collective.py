"""Step: the ranks of a replica reduce one tensor together, over what its engine will use."""

from __future__ import annotations

import os
import re
import socket
from datetime import timedelta
from importlib import import_module

from b200kit.node.serving.engine_probe.asked import ProbeFault, ProbeNotApplicable, ProbeRequest
from b200kit.node.state import advice

WITHIN_S = 60
_MULTICAST = re.compile(r"nvls|multicast|NVLink SHARP|failure 1 'invalid argument'", re.IGNORECASE)
"""NCCL's words where NVLS cannot be set up: the fabric manager was restarted beside the GPUs, or is
not well (NVIDIA/nccl#976 and #1488, pytorch/pytorch#177472)."""
_ELEMENTS = 1 << 18


def all_reduce(asked: ProbeRequest) -> str:
    """NCCL between the replica's GPUs; gloo between processes on CPUs, of which there are two."""
    if asked.kind == "stand-in":
        raise ProbeNotApplicable("a stand-in for an engine has no ranks")
    backend = "nccl" if asked.on_gpus else "gloo"
    ranks = asked.ranks if asked.on_gpus else max(2, asked.ranks)
    if ranks == 1:
        raise ProbeNotApplicable("one GPU has nobody to reduce with")
    # Loaded once, before the fork: that starts neither CUDA nor a thread.
    import_module("torch.distributed")
    meeting = f"tcp://{_bracketed(asked.address)}:{_free_port(asked.address)}"
    errors = _run(ranks, backend, meeting)
    if errors:
        seen = f"{backend} over {ranks} ranks at {asked.address}: {errors[0]}"
        if asked.on_gpus and any(map(_MULTICAST.search, errors)):
            raise ProbeFault(seen, advice.BY_CAUSE["nvls.manager"])
        wires = "IPAddressAllow=, RestrictAddressFamilies= and the interface variables"
        links = "the links between the GPUs (NCCL_DEBUG=INFO) and " if asked.on_gpus else ""
        raise ProbeFault(seen, asked.unit(f"check {links}{wires}"))
    return f"{backend} reduces over {ranks} ranks"


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        port: int = server.getsockname()[1]
        return port


def _run(ranks: int, backend: str, meeting: str) -> list[str]:
    """What went wrong, by rank; a rank that ended without a word, too."""
    reader, writer = os.pipe()
    children = [_fork(rank, ranks, backend, meeting, writer) for rank in range(ranks)]
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as pipe:
        said = [line.strip() for line in pipe if line.strip()]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return said or [f"rank {rank} ended with {code}" for rank, code in enumerate(codes) if code]


def _fork(rank: int, ranks: int, backend: str, meeting: str, writer: int) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        _reduce(rank, ranks, backend, meeting)
        code = 0
    except BaseException as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        # torch names NCCL's own reason last.
        text = why if len(why) <= 600 else f"{why[:200]} ... {why[-400:]}"
        os.write(writer, f"rank {rank}: {text}\n".encode())
    finally:
        os._exit(code)


def _reduce(rank: int, ranks: int, backend: str, meeting: str) -> None:
    """One rank. Raises whatever torch does, or ValueError for a wrong sum."""
    torch = import_module("torch")
    group = torch.distributed
    device = f"cuda:{rank}" if backend == "nccl" else "cpu"
    if backend == "nccl":
        torch.cuda.set_device(rank)
    limit = timedelta(seconds=WITHIN_S)
    group.init_process_group(
        backend, init_method=meeting, rank=rank, world_size=ranks, timeout=limit
    )
    tensor = torch.full((_ELEMENTS,), float(rank + 1), device=device)
    group.all_reduce(tensor)
    desired = ranks * (ranks + 1) / 2
    low, high = float(tensor.min()), float(tensor.max())
    if low != desired or high != desired:
        raise ValueError(f"the sum is {low} to {high}, not {desired}")
    group.destroy_process_group()
