"""`b200 plan`: how a node should serve a model, and why."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from b200kit.catalog import load, model_name, recognised
from b200kit.catalog import types as catalogue
from b200kit.cli import report
from b200kit.cli.command import JSON, Command, Refusal, completes, words
from b200kit.engines import KINDS, EngineKind, kv_cache
from b200kit.inventory import defaults, engine_flags, precision
from b200kit.node.lib.documents import unstructure
from b200kit.node.placement import layout, machine
from b200kit.node.state import plausible, verdict, view
from b200kit.quality import kept
from b200kit.records import examples, observed_file
from b200kit.report import outcome
from b200kit.report.document import read
from b200kit.run import console, places
from b200kit.sizing import dimensions, explain, fit, kv_cache_formats, planner
from b200kit.sizing.goals import GOALS

SCHEMA = "b200kit/plan/1"
PLANNED, IMPOSSIBLE = 0, 1
_WIDTH = 100
# The part of NVML's figure that a process can use: 178.35 GiB of 183,359 MiB on a B200
# (inferred for others).
_VISIBLE = 0.996
_SAY = "what is not recognised is not planned for"


@dataclass(frozen=True)
class PlanOptions:
    """What the command line requests."""

    model: catalogue.Model
    state: dict[str, Any]
    goal: str
    as_json: bool
    gpus: int | None
    engine: str
    max_model_len: int | None
    kv_cache_dtype: str | None
    first_port: int


@dataclass(frozen=True)
class PlanResult:
    """A plan laid out on a node."""

    subject: fit.Subject
    pool: fit.GpuPool
    requested: fit.Requested
    plan: planner.SizingPlan
    replicas: list[layout.Replica]
    reserved: str
    power_cap: str = ""
    engine: str = "vllm"
    lowered: tuple[str, ...] = ()


def _model(_: click.Context, __: click.Parameter, name: str | None) -> catalogue.Model:
    if name is None:
        raise click.BadParameter("which one? `b200 models` lists those known")
    known = load.load().models
    if found := model_name.known(name, known):
        return known[found]
    try:
        if Path(name).exists():
            return load.from_config(Path(name))
    except dimensions.ModelError as error:
        raise click.BadParameter(str(error)) from None
    near = " or ".join(model_name.near(name, known))
    end = f"did you mean {near}?" if near else "`b200 models` has those known"
    raise click.BadParameter(f'unknown model "{name}", and no such file; {end}')


def _observed(_: click.Context, __: click.Parameter, word: str) -> dict[str, Any]:
    """The observation of a healthy node of a hardware, of a file, or of a node's latest run."""
    try:
        if (healthy := f"healthy-{word}") in examples.names():
            state: Any = examples.load(healthy).state
        elif os.sep in word or Path(word).exists():
            state = observed_file.read(word).state
        else:
            state = _of_run(word)
    except places.NoSite:
        hardware = ", ".join(_hardware())
        raise click.BadParameter(f"{word} is no file, none of {hardware}, and no site") from None
    except (OSError, ValueError) as error:
        raise click.BadParameter(words(error)) from None
    if not isinstance(state, dict) or state.get("schema") != view.SCHEMA:
        raise click.BadParameter(f"{word} has no {view.SCHEMA}, as observe prints it")
    return plausible.plausible(state)


def _of_run(node: str) -> object:
    folder = report.find("latest", None)
    hosts = outcome.hosts_of(report.load(folder, lambda hosts: {node} & {*hosts}))
    if node not in hosts:
        known = ", ".join([*_hardware(), *hosts])
        raise ValueError(f"{node} is no file, no hardware and no node of {folder}: {known}")
    return read(hosts[node], "state")


def _hardware() -> list[str]:
    """Every hardware of which a healthy node comes with b200kit."""
    found = (name.removeprefix("healthy-") for name in examples.names())
    return [name for name in found if name in load.load().hardware]


def _model_names() -> list[str]:
    return list(load.load().models)


@click.command(
    "plan",
    cls=Command,
    exit_codes={
        PLANNED: "planned",
        IMPOSSIBLE: "the model does not fit, or the node cannot carry the replicas",
    },
)
@click.argument(
    "model",
    required=False,
    metavar="MODEL",
    callback=_model,
    shell_complete=completes(_model_names),
)
@click.option(
    "--goal", type=click.Choice(sorted(GOALS)), default="balanced", show_default=True,
    help="What matters most.",
)  # fmt: skip
@click.option(
    "--on", "state", metavar="NODE|PATH|HARDWARE", default="hgx-b200", show_default=True,
    callback=_observed, shell_complete=completes(_hardware),
    help="A node of the latest run, a recorded one, or a healthy one of a hardware.",
)  # fmt: skip
@JSON
@click.option(
    "--gpus", type=click.IntRange(1, 16), help="GPUs of a degraded node, fewer than whole."
)
@click.option(
    "--engine", type=click.Choice(sorted(KINDS)), default="vllm", show_default=True, help="Engine."
)
@click.option("--max-model-len", type=int, help="Prompt and output, tokens; else by the model.")
@click.option("--kv-cache-dtype", metavar="DTYPE", help="Other than the catalogue's, such as fp8.")
@click.option(
    "--first-port",
    type=click.IntRange(1, 65535),
    default=8001,
    show_default=True,
    help="Port of replica 0.",
)
def command(**given: Any) -> None:
    """Lay MODEL out on a node, and say why.

    MODEL is a name of the catalogue or of the Hub, or a path to a config.json. A recorded node is a
    file as `b200 judge` takes it.
    """
    options = PlanOptions(**given)
    try:
        result = _plan(options, options.state)
    except dimensions.ModelError as error:
        raise click.UsageError(str(error)) from None
    except (fit.Impossible, machine.LayoutError) as error:
        raise Refusal(str(error), IMPOSSIBLE) from None
    console.document(to_json(result)) if options.as_json else console.out(*lines(result))


def _plan(options: PlanOptions, state: dict[str, Any]) -> PlanResult:
    model = options.model
    pool = _pool(state, options.gpus)
    kind = KINDS[options.engine]
    asked = options.kv_cache_dtype
    dtype = engine_flags.kv_of(model) if asked is None else asked
    flags = engine_flags.of_goal(kind, model, options.goal, load.load())
    requested = fit.Requested(
        goal=options.goal,
        max_model_len=_length(options.max_model_len, model),
        kv_dtype=dtype,
        drafted=kind.drafted(flags),
        prefix_caching=kind.prefix_caching(flags),
    )
    refused = _refused(kind, model, flags, dtype)
    if refused:
        raise fit.Impossible("engine", refused)
    subject = defaults.subject(model)
    plan = planner.decide(subject, pool, requested, defaults.siblings(model, load.load()))
    if refused := kind.refuses(plan.shape):
        raise fit.Impossible("engine", refused)
    ports = tuple(range(options.first_port, options.first_port + plan.replicas))
    if ports[-1] > 65535:
        raise click.UsageError(f"--first-port {ports[0]}: replica {len(ports) - 1} has none left")
    replicas = layout.place(state, plan.replicas, plan.shape, ports)
    reserved = layout.reserved(state, replicas)
    # Here, as its package loads every check.
    from b200kit.node.checks.gpu import power

    cap = power.capped(view.StateView(state))
    lowered = tuple(precision.of(model, dtype, flags))
    return PlanResult(subject, pool, requested, plan, replicas, reserved, cap, kind.name, lowered)


def _pool(state: Mapping[str, Any], asked: int | None) -> fit.GpuPool:
    """The GPUs to plan for: *asked* of what they are, by default all.

    What is not recognised as hardware of the catalogue is not planned for.
    """
    gpus = state.get("gpus")
    if not isinstance(gpus, list):
        raise machine.LayoutError("the node's GPUs were not read")
    ids = _ids(gpus)
    candidates = recognised.for_machine(state, load.load().hardware.values())
    try:
        found = recognised.matching(ids, len(gpus), len(gpus) > 1, candidates)
    except recognised.Unrecognised as error:
        raise machine.LayoutError(f"{error}: {_SAY}") from None
    whole = found.gpu_count
    if asked is not None and not 1 <= asked <= whole:
        raise click.UsageError(f"--gpus {asked}: {found.name} has 1 to {whole}")
    usable = asked or whole
    if len(gpus) < usable:
        raise machine.LayoutError(
            f"the node shows {len(gpus)} of {usable} GPUs; allow it with --gpus {len(gpus)}"
        )
    memory = _memory(gpus) or found.gpu_bytes
    if not memory:
        raise click.UsageError(
            f"the memory of the GPUs is in neither the state nor hardware {found.name}"
        )
    return fit.GpuPool(found.name, usable, memory, whole, frozenset(found.gpus[i] for i in ids))


def _ids(gpus: Sequence[Any]) -> set[str]:
    found = set()
    for number, gpu in enumerate(gpus):
        read = gpu.get("device_id") if isinstance(gpu, Mapping) else None
        if not isinstance(read, str):
            raise machine.LayoutError(f"the PCI device id of GPU {number} was not read: {_SAY}")
        found.add(f"10de:{read}")
    return found


def _memory(gpus: Sequence[Any]) -> float:
    """Memory of the smallest GPU that a process can see, bytes; 0 where the state has none."""
    reported = [gpu["memory_total_mib"] for gpu in gpus if "memory_total_mib" in gpu]
    if not reported:
        return 0
    known = [machine.whole(mib) or 0 for mib in reported]
    if len(known) < len(gpus) or not all(known):
        raise machine.LayoutError("the memory of a GPU was not read (gpus.memory_total_mib)")
    return min(known) * 2**20 * _VISIBLE


def _refused(
    kind: EngineKind, model: catalogue.Model, flags: Mapping[str, object], dtype: str
) -> str | None:
    """Why an engine cannot serve a model, or keep its cache so."""
    if why := load.load().engines[kind.name].refused.get(model.family):
        return f"{kind.name} cannot serve {model.name}: {why}"
    if kind.name == "vllm":
        return kv_cache_formats.refusal(flags, dtype)
    return kv_cache.refusal(kind, dtype)


def _length(asked: int | None, model: catalogue.Model) -> int:
    requested = defaults.context(model, load.load()) if asked is None else asked
    longest = model.dimensions.max_length if model.dimensions else requested
    if not 1 <= requested <= longest:
        raise click.UsageError(
            f"--max-model-len {requested}: {model.name} takes 1 to {longest} tokens"
        )
    return requested


def to_json(result: PlanResult) -> dict[str, Any]:
    """The plan as a document: everything a unit needs, and the reasons beside it."""
    return {
        "schema": SCHEMA,
        "model": result.subject.name,
        "hardware": result.pool.name,
        "goal": result.requested.goal,
        "engine": result.engine,
        "max_model_len": result.requested.max_model_len,
        "kv_cache_dtype": result.requested.kv_dtype,
        "weights_bytes": round(result.subject.weights.total),
        "replicas": [
            {**unstructure(replica), "spans": replica.spans} for replica in result.replicas
        ],
        "reserved_cpus": result.reserved,
        "shared_cpus": layout.shared(result.replicas),
        "power_cap": result.power_cap or None,
        "lowered": list(result.lowered),
        "why": list(result.plan.why),
        "rejected": list(result.plan.rejected),
    }


def lines(result: PlanResult) -> list[str]:
    """The plan as a person reads it."""
    text = [headline(result.plan, result.replicas)]
    text += _table(result)
    free = f"cpus {result.reserved}" if result.reserved else "none, but those of the replicas"
    text.append(f"free  {free}: for gateway, client and interrupts together")
    if result.power_cap:
        text.append(f"power capped at {result.power_cap}: no figure of whole GPUs holds")
    if shared := layout.shared(result.replicas):
        text.append(f"twice cpus {shared}: more than one replica's, there are too few cores")
    fewer = [_validated(result)] if result.lowered else []
    for label, reasons in (
        ("why", result.plan.why),
        ("bits", fewer),
        ("not", result.plan.rejected),
    ):
        for reason in reasons:
            text += wrap(f"{label:<6}{reason}", _WIDTH, subsequent_indent=" " * 6)
    return text


def _validated(result: PlanResult) -> str:
    """Whether answers of what is served in fewer bits were compared with the original's here."""
    names, model = ", ".join(result.lowered), result.subject.name
    found = kept.of_model(model, result.engine, result.lowered)
    if found is None:
        return (
            f"{names}: not validated here; nodes serve it once it was compared with the original "
            f"(b200 quality compare), or with {verdict.waiver_line('precision.validated')}"
        )
    return f"revision {found.key.revision[:12]}: {kept.judged(found.key, found.compared).summary}"


def headline(plan: planner.SizingPlan, replicas: Sequence[layout.Replica]) -> str:
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


def parallelism(plan: planner.SizingPlan) -> str:
    """TP2, TP4+EP, DP8+EP."""
    shape = plan.shape
    ways = [f"DP{shape.dp}"] if shape.dp > 1 else []
    ways += [f"TP{shape.tp}"] if shape.tp > 1 or not ways else []
    return "+".join([*ways, *(["EP"] if shape.ep else [])])


def _table(result: PlanResult) -> list[str]:
    rows = [
        (
            f"  {replica.replica}",
            f"GPU {_numbers(replica.gpus)}",
            f"numa {_numbers(replica.numa_nodes)}",
            f"cpus {replica.cpus}",
            f":{replica.port}",
            _tokens(replica, result.requested.max_model_len),
        )
        for replica in result.replicas
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _tokens(replica: layout.Replica, length: int) -> str:
    tokens = replica.kv_tokens or 0
    return f"KV {explain.tokens_text(tokens)} tokens ({tokens // length} x {length})"
