"""Serving: engine, model, and one hardened, pinned systemd unit a replica. Nothing is started here.

Dense models run as independent instances, one unit a replica: each has its own restart, logs, NUMA
node and failure domain (vLLM refuses external data parallelism for dense models).
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deploy import catalogue
from deploy.core import drift
from deploy.core.drift import File, Unit
from deploy.core.layout import Replica
from deploy.core.spec_parts import Engine
from deploy.node.fetch import STAMP
from deploy.remote import RemoteError
from deploy.render import render
from deploy.run import Node
from deploy.stages.base import Change, Stage, Wanted, converge

TARGET = "vllm.target"
SERVING = "/etc/b200kit/serving.json"
SECRETS = "/etc/b200kit/secrets"
# Less than the largest wheel of any engine needs while it is unpacked.
_ROOM_MB = 512
_REQUIREMENTS = "/etc/b200kit/engine-requirements.txt"


def replica_units(node: Node) -> list[str]:
    """Unit names of the node's replicas, in replica order."""
    return [f"vllm@{number}.service" for number in range(node.spec.replicas)]


def surplus_units(node: Node) -> list[str]:
    """Replicas beyond those asked for that an earlier run may have made on this hardware."""
    most = catalogue.load().hardware[node.spec.hardware].gpu_count
    return [f"vllm@{number}.service" for number in range(node.spec.replicas, most)]


def engine_id(node: Node) -> str:
    """Names the engine's environment: a digest of its hash-locked requirements."""
    return hashlib.sha256(_requirements(node)).hexdigest()[:12]


def _requirements(node: Node) -> bytes:
    return Path(node.spec.engine.requirements).read_bytes()


def engine_dir(node: Node) -> str:
    """Where the engine's virtual environment lies on the node."""
    return f"/opt/vllm/{engine_id(node)}"


def model_dir(node: Node) -> str:
    """Where the model lies on the node."""
    return f"{node.spec.models()}/{node.spec.model}/{node.spec.model_revision}"


def wanted(node: Node, layout: Sequence[Replica]) -> Wanted:
    """Units, configuration and secrets of every replica."""
    files = [
        *_secret_files(node),
        File(_REQUIREMENTS, _requirements(node)),
        File("/etc/sysusers.d/vllm.conf", render("serving/sysusers.conf.j2"), then=("sysusers",)),
        File(f"/etc/systemd/system/{TARGET}", render("systemd/vllm.target.j2", layout=layout)),
        _shared("/etc/systemd/system/vllm@.service", _unit(node), node),
        _shared("/usr/local/lib/b200kit/serve", _launcher(node), node, mode=0o755),
        File(SERVING, _serving_document(node, layout)),
    ]
    for replica in layout:
        files += _replica_files(node, replica)
    return Wanted(
        files=tuple(files),
        units=(Unit(TARGET, active=False),),
        ask_files=(f"{engine_dir(node)}/{STAMP}", f"{model_dir(node)}/{STAMP}"),
        gone_files=tuple(path for unit in surplus_units(node) for path in _paths_of(unit)),
        gone_units=tuple(surplus_units(node)),
    )


def _shared(path: str, content: bytes, node: Node, mode: int = 0o644) -> File:
    restarts = tuple(f"restart:{unit}" for unit in replica_units(node))
    return File(path, content, mode, then=restarts)


def _secret_files(node: Node) -> list[File]:
    restarts = {"api_key": tuple(f"restart:{unit}" for unit in replica_units(node))}
    return [
        File(
            f"{SECRETS}/{name}",
            secret.reveal(),
            0o600,
            secret=True,
            then=restarts.get(name, ()),
        )
        for name, secret in sorted(node.secrets.items())
    ]


def _unit(node: Node) -> bytes:
    return render(
        "systemd/vllm@.service.j2",
        spec=node.spec,
        serving=SERVING,
        api_key=f"{SECRETS}/api_key" if "api_key" in node.secrets else None,
        model_dir=model_dir(node),
    )


def _launcher(node: Node) -> bytes:
    return render("serving/serve.sh.j2", engine_dir=engine_dir(node))


def _replica_files(node: Node, replica: Replica) -> list[File]:
    unit = f"vllm@{replica.replica}.service"
    restart = (f"restart:{unit}",)
    model = catalogue.load().models[node.spec.model]
    config = render(
        "serving/replica.yaml.j2",
        spec=node.spec,
        replica=replica,
        model_dir=model_dir(node),
        flags=dict(model.flags) | dict(node.spec.engine.flags),
    )
    pinning = render("systemd/pinning.conf.j2", spec=node.spec, replica=replica)
    return [
        File(f"/etc/vllm/replica-{replica.replica}.yaml", config, then=restart),
        File(f"/etc/systemd/system/{unit}.d/pinning.conf", pinning, then=restart),
    ]


def _paths_of(unit: str) -> tuple[str, str]:
    number = unit.removeprefix("vllm@").removesuffix(".service")
    return f"/etc/vllm/replica-{number}.yaml", f"/etc/systemd/system/{unit}.d/pinning.conf"


def _surplus(node: Node) -> list[Change]:
    """Replicas that are not asked for any more give their GPUs back before the others take them."""
    state = node.state or {}
    left = [
        unit
        for unit in surplus_units(node)
        if any(drift.is_present(path, state) for path in _paths_of(unit))
    ]
    return [Change(f"remove {unit}", _remover(unit)) for unit in left]


def _remover(unit: str) -> Callable[[Node], None]:
    def remove(node: Node) -> None:
        # The files go last: while they are there, the next run knows that the unit must go.
        paths = " ".join(_paths_of(unit))
        node.connected().run(f"systemctl stop {unit} && rm -f {paths}")

    return remove


def _serving_document(node: Node, layout: Sequence[Replica]) -> bytes:
    return json.dumps(serving_document(node, layout), indent=1, sort_keys=True).encode()


def serving_document(node: Node, layout: Sequence[Replica]) -> dict[str, Any]:
    """What warm-up, canary and smoke test need to know (/etc/b200kit/serving.json)."""
    spec = node.spec
    smoke = spec.smoke
    return {
        "model": spec.model,
        "engine": _engine_name(spec.engine),
        "stand_in": spec.engine.kind == "stand-in",
        "gateway": f"http://{_reachable(spec.gateway_bind)}:{spec.gateway_port}",
        "api_key_file": f"{SECRETS}/api_key" if "api_key" in node.secrets else None,
        "replicas": [
            {
                "index": replica.replica,
                "url": f"http://127.0.0.1:{replica.port}",
                "unit": f"vllm@{replica.replica}.service",
            }
            for replica in layout
        ],
        "max_num_seqs": spec.max_num_seqs,
        "max_model_len": spec.max_model_len,
        "max_num_batched_tokens": spec.max_num_batched_tokens,
        "client_cpus": spec.client_cpus,
        "warm": {"timeout_s": spec.warm_deadline_s, "tolerance": 0.1, "max_rounds": 40},
        "smoke": {
            "requests": smoke.requests,
            "rate": smoke.rate,
            "input_tokens": smoke.input_tokens,
            "output_tokens": smoke.output_tokens,
            "goodput": {"ttft_ms": smoke.ttft_ms, "tpot_ms": smoke.tpot_ms},
        },
    }


def _engine_name(engine: Engine) -> str:
    """As reports name it; what stands in for vLLM must not read like a vLLM."""
    if engine.kind == "stand-in":
        return f"stand-in {engine.version}, not vLLM"
    return f"vllm {engine.version} ({engine.kind})"


def _reachable(bind: str) -> str:
    if bind in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{bind}]" if ":" in bind else bind


def plan(node: Node) -> list[Change]:
    """Files, then engine and model; restarts that are owed are left to the warm-up stage."""
    target = wanted(node, node.layout())
    changes = _surplus(node)
    changes += [c for c in converge(node, target) if not c.what.startswith("restart ")]
    state = node.state or {}
    if not drift.is_present(f"{engine_dir(node)}/{STAMP}", state):
        changes.append(Change(f"install the engine, {_engine_name(node.spec.engine)}", _install))
    if not drift.is_present(f"{model_dir(node)}/{STAMP}", state):
        changes.append(Change(f"fetch the model {node.spec.model}", _fetch))
    return changes


def _install(node: Node) -> None:
    """A fresh environment every time, stamped last: half an environment is never taken for one."""
    venv = shlex.quote(engine_dir(node))
    wheelhouse = shlex.quote(node.spec.engine.wheelhouse)
    pip = (
        f"{venv}/bin/python -I -m pip install --no-deps --require-hashes --no-index --no-cache-dir "
        f"--disable-pip-version-check --timeout 20 --retries 2 --find-links {wheelhouse} "
        f"{_trusted(node)} -r {_REQUIREMENTS}"
    )
    fresh = f"rm -rf {venv} && python3 -m venv {venv} && {pip} && echo done > {venv}/{STAMP}"
    # A run that was killed may have finished it in the meantime.
    script = f"test -e {venv}/{STAMP} || ({fresh})"
    try:
        node.connected().run_logged(script, "/var/log/b200kit-engine.log")
    except RemoteError as error:
        raise RemoteError(_disk(node, venv) or str(error)) from None


def _disk(node: Node, path: str) -> str:
    """Says that the disk is full when it is: what fails for want of room seldom says so itself."""
    parent = path.rpartition("/")[0]
    free = node.connected().attempt(f"df --output=avail -BM {parent} | tail -n 1").stdout.strip()
    full = free.rstrip("M").isdigit() and int(free.rstrip("M")) < _ROOM_MB
    return f"no disk space: {free} left under {parent}" if full else ""


def _trusted(node: Node) -> str:
    """Plain HTTP is allowed because every wheel is checked against its hash."""
    url = node.spec.engine.wheelhouse
    host = url.split("/")[2] if url.startswith("http://") else ""
    return f"--trusted-host {shlex.quote(host)}" if host else ""


def _fetch(node: Node) -> None:
    spec = node.spec
    token = f"--token-file {SECRETS}/hf_token" if "hf_token" in node.secrets else ""
    url = f"{spec.model_store.rstrip('/')}/{spec.model}/{spec.model_revision}"
    node.connected().program(
        f"fetch --url {shlex.quote(url)} --dest {shlex.quote(model_dir(node))} "
        f"--revision {spec.model_revision} {token}"
    )


STAGE = Stage(name="serving", wanted=wanted, plan=plan)
