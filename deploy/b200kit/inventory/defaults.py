"""Size and layout by the inventory: a goal is resolved to figures, and all are checked.

Pure: between the spec, which only has keys, and the planner, which only has figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit import engines
from b200kit.catalog.hardware.facts import Hardware
from b200kit.catalog.types import Catalogue, Model
from b200kit.engines import kv_cache
from b200kit.engines.contract import Scalar
from b200kit.inventory import engine_flags
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib import cpulist
from b200kit.node.placement.layout import Shape
from b200kit.sizing import fit, kv_cache_formats, memory, planner, start_time
from b200kit.sizing.dimensions import ModelError
from b200kit.sizing.fit import GpuPool, Impossible, Requested, Subject
from b200kit.sizing.planner import SizingPlan

CONTEXT = 4096
"""Tokens of prompt and answer of a model that does not think."""
# Flags under which a model takes a longer context than its config.json says.
_LONGER = ("hf-overrides", "rope-scaling", "hf-config-path")


def resolve_defaults(given: NodeSpec, catalogue: Catalogue) -> tuple[NodeSpec, list[Problem]]:
    """The spec with figures where it had None, and what is wrong with the requested ones."""
    spec = given.replace(max_model_len=given.max_model_len or _context(given, catalogue))
    problems: list[Problem] = []
    plan = None
    try:
        plan = _planned(spec, catalogue)
    except Impossible as impossible:
        problems.append(Problem(impossible.key, str(impossible)))
    except ModelError as error:
        problems.append(Problem("engine.flags", f"{spec.model}: {error}"))
    if plan is None and not problems:
        problems += _missing(spec, catalogue)
    return _timed(_filled(spec, plan), catalogue), problems


def _context(spec: NodeSpec, catalogue: Catalogue) -> int:
    model = catalogue.models.get(spec.model)
    return context(model, catalogue) if model else CONTEXT


def context(model: Model, catalogue: Catalogue) -> int:
    """Tokens of prompt and answer where nobody names them, as far as the model takes them."""
    wanted = catalogue.contexts.get(model.family, CONTEXT)
    longest = model.dimensions.max_length if model.dimensions else None
    return min(wanted, longest) if longest else wanted


def _timed(spec: NodeSpec, catalogue: Catalogue) -> NodeSpec:
    """The spec with a limit on the start of a replica, by what each of its ranks reads."""
    if spec.warm_deadline_s:
        return spec
    model = catalogue.models.get(spec.model)
    sized = model is not None and model.dimensions is not None
    checkpoint = subject(model).weights.total if model and sized else None
    ranks = spec.replicas * spec.tensor_parallel * spec.data_parallel
    return spec.replace(warm_deadline_s=start_time.limit_s(checkpoint, ranks))


def _planned(spec: NodeSpec, catalogue: Catalogue) -> SizingPlan | None:
    """The plan for the request; None where too little is known, or nothing is to be planned.

    Only what computes on GPUs is held to their memory, unless a goal leaves a choice to the plan.
    """
    model, hardware = catalogue.models.get(spec.model), catalogue.hardware.get(spec.hardware)
    if model is None or hardware is None or model.dimensions is None or not hardware.gpu_bytes:
        return None
    if spec.engine.kind != "cuda" and spec.goal is None:
        return None
    if spec.group is not None:
        # Its members share one model; what the plan knows is one node.
        return None
    if spec.goal is None and (spec.replicas is None or spec.tensor_parallel is None):
        return None
    others, request = siblings(model, catalogue), requested(spec, model, catalogue)
    return planner.decide(subject(model), pool(spec, hardware), request, others)


def siblings(model: Model, catalogue: Catalogue) -> list[Subject]:
    """Other checkpoints of the same model."""
    alike = [one for one in catalogue.models.values() if one.family == model.family]
    others = [one for one in alike if model.family and one.name != model.name]
    return [subject(one) for one in others if one.dimensions is not None]


def _missing(spec: NodeSpec, catalogue: Catalogue) -> Iterator[Problem]:
    missing = [
        (name, what)
        for name, value, what in (
            ("replicas", spec.replicas, "serving instances on the node"),
            ("tensor_parallel", spec.tensor_parallel, "GPUs a replica"),
        )
        if value is None
    ]
    if spec.goal is None:
        for name, what in missing:
            yield Problem(name, f"is required: {what}; or give a goal")
    elif missing and spec.model in catalogue.models and spec.hardware in catalogue.hardware:
        sized = catalogue.models[spec.model].dimensions is not None
        what = f"memory of {spec.hardware}" if sized else f"size of {spec.model}"
        instead = "" if sized else ", or its config.json as model_config_file"
        yield Problem(
            "goal",
            f"not known: the {what}; give replicas and tensor_parallel{instead}",
        )


def _filled(spec: NodeSpec, plan: SizingPlan | None) -> NodeSpec:
    shape = plan.shape if plan else Shape()
    return spec.replace(
        replicas=spec.replicas or (plan.replicas if plan else 1),
        tensor_parallel=spec.tensor_parallel or shape.tp,
        data_parallel=spec.data_parallel or shape.dp,
        expert_parallel=shape.ep if spec.expert_parallel is None else spec.expert_parallel,
        max_num_seqs=spec.max_num_seqs or shape.max_num_seqs or 8,
        max_num_batched_tokens=spec.max_num_batched_tokens or shape.max_num_batched_tokens or 2048,
    )


def subject(model: Model) -> Subject:
    """A model for the planner; raises ModelError when nothing is known of its size."""
    if model.dimensions is None:
        raise ModelError(f"nothing is known of the size of {model.name}")
    weights = memory.weights(model.dimensions, model.weights_bytes)
    return Subject(model.name, model.dimensions, weights)


def pool(spec: NodeSpec, hardware: Hardware) -> GpuPool:
    """The hardware for the planner, with the GPUs that a degraded node still has.

    Which GPU a `single` has is known on the node: no model's size or format is compared with it.
    """
    models = hardware.gpus.values() if hardware.gpu_bytes else ()
    gpus = min(spec.gpus or hardware.gpu_count, hardware.gpu_count)
    whole = hardware.gpu_count
    return GpuPool(hardware.name, gpus, hardware.gpu_bytes, whole, frozenset(models))


def requested(spec: NodeSpec, model: Model, catalogue: Catalogue) -> Requested:
    """What the inventory says about the shape."""
    kind = engines.get(spec.engine)
    given = engine_flags.flags(spec, model, catalogue)
    return Requested(
        goal=spec.goal,
        # A member of a group has one replica, on all of its GPUs.
        replicas=1 if spec.group and spec.replicas is None else spec.replicas,
        tp=spec.tensor_parallel,
        dp=spec.data_parallel,
        ep=spec.expert_parallel,
        max_num_seqs=spec.max_num_seqs,
        max_num_batched_tokens=spec.max_num_batched_tokens,
        max_model_len=spec.max_model_len,
        kv_dtype=kv_cache.stated(kind, given),
        utilisation=_share(given.get("gpu-memory-utilization")),
        drafted=kind.drafted(given),
        prefix_caching=kind.prefix_caching(given),
        nodes=len(spec.group.members) if spec.group else 1,
        join=spec.group.join if spec.group else "",
    )


def _share(stated: object) -> float:
    """The part of its memory an engine may use: as a flag says, else vLLM 0.33's own 0.92."""
    return float(stated) if isinstance(stated, int | float) else 0.92


def shape(spec: NodeSpec, catalogue: Catalogue) -> Shape:
    """The shape of the replicas, with KV tokens where the size of the model is known."""
    plain = Shape(
        tp=spec.tensor_parallel,
        dp=spec.data_parallel or 1,
        ep=bool(spec.expert_parallel),
        max_num_seqs=spec.max_num_seqs,
        max_num_batched_tokens=spec.max_num_batched_tokens,
    )
    model, hardware = catalogue.models.get(spec.model), catalogue.hardware.get(spec.hardware)
    sized = model is not None and model.dimensions is not None
    if not (model and hardware and sized and hardware.gpu_bytes and spec.engine.kind == "cuda"):
        return plain
    request = requested(spec, model, catalogue)
    return fit.headroom(subject(model), pool(spec, hardware), request, plain).shape


def problems(spec: NodeSpec, catalogue: Catalogue) -> Iterator[Problem]:
    """What about size and layout cannot work, apart from what the plan itself refuses."""
    model = catalogue.models.get(spec.model)
    given = engine_flags.flags(spec, model, catalogue)
    longest = model.dimensions.max_length if model and model.dimensions else None
    if longest and spec.max_model_len > longest and not any(name in given for name in _LONGER):
        yield Problem(
            "max_model_len",
            f"{spec.max_model_len} is over the {longest} tokens that {spec.model} can take",
        )
    if spec.engine.name == "vllm":
        yield from _attention(spec, given)
    hardware = catalogue.hardware.get(spec.hardware)
    if hardware:
        yield from _degraded(spec, hardware)
    yield from _cpu_clashes(spec)


def _attention(spec: NodeSpec, given: Mapping[str, Scalar]) -> Iterator[Problem]:
    """A cache format that the requested backend cannot store, on all replicas or on one."""
    kind = engines.get(spec.engine)
    refused = kv_cache_formats.refusal(given, kv_cache.stated(kind, given))
    if refused:
        yield Problem("engine.flags", refused)
        return
    for number, own in spec.replica_flags:
        merged = {**given, **dict(own)}
        refused = kv_cache_formats.refusal(merged, kv_cache.stated(kind, merged))
        if refused:
            yield Problem(f"replica_flags.{number}", refused)


# NVML lists fewer whatever became of the missing GPU; the gate names the other checks to waive.
COUNT_CHECKS = ("identity.nvml-count",)


def _degraded(spec: NodeSpec, hardware: Hardware) -> Iterator[Problem]:
    """Fewer GPUs are served on only where somebody answers for it, until a date."""
    if spec.gpus is None or spec.gpus == hardware.gpu_count:
        return
    if spec.gpus > hardware.gpu_count:
        yield Problem("gpus", f"{spec.gpus}, but {hardware.name} has {hardware.gpu_count}")
        return
    waived = {waiver.check for waiver in spec.waivers}
    missing = [check for check in COUNT_CHECKS if check not in waived]
    if missing:
        yield Problem(
            "gpus",
            f"{spec.gpus} of {hardware.gpu_count} GPUs: waive {' and '.join(missing)} by name, "
            "with an owner and a last day",
        )


def _cpu_clashes(spec: NodeSpec) -> Iterator[Problem]:
    lists = spec.replica_cpus
    if lists and len(lists) != spec.replicas:
        yield Problem("replica_cpus", f"{len(lists)} lists for {spec.replicas} replicas")
    kept = spec.kept_cpus()
    asked = [
        ("client_cpus", "the client", kept.get("client_cpus", "")),
        ("gateway.cpus", "the gateway", kept.get("gateway.cpus", "")),
        *(("replica_cpus", f"replica {number}", text) for number, text in enumerate(lists)),
    ]
    owner: dict[int, str] = {}
    for key, name, text in asked:
        try:
            mine = cpulist.parse(text)
        except ValueError as error:
            yield Problem(key, str(error))
            continue
        clash = sorted(cpu for cpu in mine if cpu in owner)
        if clash:
            message = f"CPUs {cpulist.format(clash)} of {name} are also {owner[clash[0]]}'s"
            yield Problem(key, message)
        owner |= dict.fromkeys(mine, name)
