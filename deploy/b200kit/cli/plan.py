"""``b200 plan``: how a node should serve a model, and why. 0 planned, 1 impossible, 2 bad input.

1 is for what cannot be: a model that does not fit, a node that cannot carry the replicas. 2 is for
what was not understood: an unknown model or option, a file that is no NodeState or no config.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, NoReturn

from b200kit.catalog import hardware, load
from b200kit.catalog.types import Model
from b200kit.inventory import defaults
from b200kit.node.placement import cpu_cores, layout
from b200kit.node.placement.layout import Replica
from b200kit.sizing import kv_cache_formats, planner
from b200kit.sizing.explain import tokens_text
from b200kit.sizing.fit import GpuPool, Impossible, Requested, Subject
from b200kit.sizing.goals import GOALS
from b200kit.sizing.model_config import ModelError
from b200kit.sizing.planner import Plan

SCHEMA = "b200kit/plan/1"
_WIDTH = 100


class BadInput(Exception):
    """Input that cannot be used, in one line."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as everything here does."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(message)


@dataclass(frozen=True)
class Answer:
    """A plan laid out on a node."""

    subject: Subject
    pool: GpuPool
    requested: Requested
    plan: Plan
    replicas: list[Replica]
    reserved: str


def main(argv: list[str]) -> int:
    """Plan and print; exit status as in the module's first line."""
    try:
        options = _options(argv)
        answer = _answer(options, _state(options.state))
    except (BadInput, ModelError, hardware.HardwareError) as error:
        print(f"b200 plan: {error}", file=sys.stderr)
        return 2
    except (Impossible, cpu_cores.LayoutError) as error:
        print(f"b200 plan: {error}", file=sys.stderr)
        return 1
    print(json.dumps(to_json(answer), indent=2) if options.json else "\n".join(lines(answer)))
    return 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = _Parser(prog="b200 plan", description="how a node should serve a model, and why")
    parser.add_argument("--state", required=True, help="a NodeState document, as observe prints it")
    parser.add_argument("--model", required=True, help="a model of the catalog, or a config.json")
    parser.add_argument("--goal", required=True, choices=sorted(GOALS), help="what matters most")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.add_argument("--hardware", help="a hardware of the catalog; by the GPUs when left out")
    parser.add_argument("--gpus", type=int, help="GPUs of a degraded node, fewer than whole")
    parser.add_argument("--max-model-len", type=int, default=4096, help="prompt and output, tokens")
    parser.add_argument("--kv-cache-dtype", help="other than the catalogue's, such as fp8")
    parser.add_argument("--first-port", type=int, default=8001, help="port of replica 0")
    return parser.parse_args(argv)


def _state(path: str) -> dict[str, Any]:
    try:
        state = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise BadInput(f"{path} is no JSON") from None
    if not isinstance(state, dict) or "gpus" not in state:
        raise BadInput(f"{path} is no NodeState: it has no gpus")
    return state


def _answer(options: argparse.Namespace, state: dict[str, Any]) -> Answer:
    model = _model(options.model)
    pool = _machine(options, state)
    dtype = options.kv_cache_dtype or defaults.kv_dtype(dict(model.flags))
    told = dict(model.flags)
    requested = Requested(
        goal=options.goal,
        max_model_len=_length(options.max_model_len, model),
        kv_dtype=dtype,
        draft=defaults.drafts(told),
    )
    refused = kv_cache_formats.refusal(told, dtype)
    if refused:
        raise Impossible("kv-cache-dtype", refused)
    subject = defaults.subject(model)
    plan = planner.decide(subject, pool, requested, defaults.siblings(model, load.load()))
    ports = tuple(range(options.first_port, options.first_port + plan.replicas))
    replicas = layout.place(state, plan.replicas, plan.shape, ports)
    return Answer(subject, pool, requested, plan, replicas, layout.reserved(state, replicas))


def _model(name: str) -> Model:
    known = load.load().models
    if name in known:
        return known[name]
    if Path(name).is_file():
        return load.from_config(Path(name))
    raise BadInput(f'unknown model "{name}": no file, and known are {", ".join(known)}')


def _length(requested: int, model: Model) -> int:
    longest = model.dimensions.max_length if model.dimensions else requested
    if not 1 <= requested <= longest:
        raise BadInput(f"--max-model-len {requested}: {model.name} takes 1 to {longest} tokens")
    return requested


def _machine(options: argparse.Namespace, state: Mapping[str, Any]) -> GpuPool:
    gpus = state["gpus"]
    if not isinstance(gpus, list):
        raise cpu_cores.LayoutError("the node's GPUs were not read")
    known = load.load().hardware
    name = options.hardware or _recognised(gpus)
    if name not in known:
        raise BadInput(f'unknown hardware "{name}"; known: {", ".join(sorted(known))}')
    whole = known[name].gpu_count
    if options.gpus is not None and not 1 <= options.gpus <= whole:
        raise BadInput(f"--gpus {options.gpus}: {name} has 1 to {whole}")
    usable = options.gpus or whole
    if len(gpus) < usable:
        raise cpu_cores.LayoutError(
            f"the node shows {len(gpus)} of {usable} GPUs; allow it with --gpus {len(gpus)}"
        )
    memory = _memory(gpus) or known[name].gpu_bytes
    if not memory:
        raise BadInput(f"the memory of the GPUs is in neither the state nor hardware {name}")
    return GpuPool(name, usable, memory, whole)


# What a process sees of what NVML tells: 178.35 GiB of 183,359 MiB on a B200 (inferred for others).
_VISIBLE = 0.996


def _memory(gpus: Sequence[Any]) -> float:
    """Memory of the smallest GPU that a process can see, bytes; 0 where it was not read."""
    told = [gpu.get("memory_total_mib") for gpu in gpus if isinstance(gpu, Mapping)]
    known = [mib for mib in told if isinstance(mib, int) and not isinstance(mib, bool)]
    return min(known) * 2**20 * _VISIBLE if known and len(known) == len(gpus) else 0


def _recognised(gpus: Sequence[Any]) -> str:
    """The hardware whose GPUs these are, hgx-b200 when none is."""
    ids = {f"10de:{gpu.get('device_id')}" for gpu in gpus if isinstance(gpu, Mapping)}
    for name in hardware.names():
        expect = hardware.load(name)["expect"]
        alike = ids and ids <= set(expect["pci.ids"]["value"])
        if alike and (expect["gpu_count"]["value"] > 1) == (len(gpus) > 1):
            return name
    return "hgx-b200"


def to_json(answer: Answer) -> dict[str, Any]:
    """The plan as a document: everything a unit needs, and the reasons beside it."""
    return {
        "schema": SCHEMA,
        "model": answer.subject.name,
        "hardware": answer.pool.name,
        "goal": answer.requested.goal,
        "max_model_len": answer.requested.max_model_len,
        "kv_cache_dtype": answer.requested.kv_dtype,
        "weights_bytes": round(answer.subject.weights.total),
        "replicas": [{**replica.to_json(), "spans": replica.spans} for replica in answer.replicas],
        "reserved_cpus": answer.reserved,
        "why": list(answer.plan.why),
        "rejected": list(answer.plan.rejected),
    }


def lines(answer: Answer) -> list[str]:
    """The plan as a person reads it."""
    told = [headline(answer.plan, answer.replicas)]
    told += _table(answer)
    if answer.reserved:
        told.append(f"free  cpus {answer.reserved}: gateway, client, interrupts")
    for label, reasons in (("why", answer.plan.why), ("not", answer.plan.rejected)):
        for reason in reasons:
            told += wrap(f"{label:<6}{reason}", _WIDTH, subsequent_indent=" " * 6)
    return told


def headline(plan: Plan, replicas: Sequence[Replica]) -> str:
    """Number, parallelism and homes of the replicas in a line."""
    number = f"{plan.replicas} replica{'' if plan.replicas == 1 else 's'}"
    spanning = sum(replica.spans for replica in replicas)
    one = "one NUMA node each" if len(replicas) > 1 else "on one NUMA node"
    some = (
        f"{spanning} of them over several NUMA nodes"
        if len(replicas) > spanning
        else ("over several NUMA nodes")
    )
    home = some if spanning else one
    return f"{number}, {parallelism(plan)}, {home}"


def parallelism(plan: Plan) -> str:
    """TP2, TP4+EP, DP8+EP."""
    shape = plan.shape
    ways = [f"DP{shape.dp}"] if shape.dp > 1 else []
    ways += [f"TP{shape.tp}"] if shape.tp > 1 or not ways else []
    return "+".join([*ways, *(["EP"] if shape.ep else [])])


def _table(answer: Answer) -> list[str]:
    rows = [
        (
            f"  {replica.replica}",
            f"GPU {_numbers(replica.gpus)}",
            f"numa {_numbers(replica.numa_nodes)}",
            f"cpus {replica.cpus}",
            f":{replica.port}",
            _tokens(replica, answer.requested.max_model_len),
        )
        for replica in answer.replicas
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _tokens(replica: Replica, length: int) -> str:
    tokens = replica.kv_tokens or 0
    return f"KV {tokens_text(tokens)} tokens ({tokens // length} x {length})"
