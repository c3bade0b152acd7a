"""Where the processes of the replicas really run, and on which GPUs, against the layout.

A pin that silently did not take hold costs latency and nothing else shows it: vLLM only warns when
it cannot bind, and a system call filter can take the binding away (SystemCallFilter=~@resources).
So what is judged is what the kernel says of each process. Only units that are active are judged,
and only where the expectation names them: before anything serves there is nothing to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.lib import cpulist
from b200kit.node.placement import numa_policy
from b200kit.node.state.expectation import Expectation, Expected, Unexpected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import Missing, StateView, Unmeasured, View

NOT_ASKED = "no placement of replicas is asked for"
_MAP = "the layout, made from this node's own NUMA map"
_NONE_TOLD = "no process of it shows CUDA_VISIBLE_DEVICES in its environment"
_RUNNING = ("active", "reloading")
ReplicaCheck = Callable[[str, View, list[View]], Iterator[Finding]]


@check("placement.cpus")
def cpus(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every process of a replica that runs may use only the CPUs that the layout gives it."""

    def check_replica(unit: str, desired: View, processes: list[View]) -> Iterator[Finding]:
        allowed = _numbers(desired, "cpus")
        requested = rule(f"CPUs {desired.text('cpus')}", _MAP)
        outside = {}
        for process in processes:
            observed = _read(process, "cpus")
            if isinstance(observed, Unmeasured):
                yield _unread(unit, process, "its CPUs", observed)
            elif not observed or not observed <= allowed:
                outside[_told(process)] = cpulist.format(observed)
        if outside:
            message = _some(outside, "may run on CPUs")
            summary = f"{unit}: {message}, not only on {desired.text('cpus')}"
            yield _failed(unit, summary, outside, requested)

    yield from _each(expect, state, check_replica, "every process is on the CPUs of its replica")


@check("placement.memory")
def memory(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every process of a replica that runs takes its memory from the NUMA nodes of its GPUs."""

    def check_replica(unit: str, desired: View, processes: list[View]) -> Iterator[Finding]:
        nodes, requested = _numbers(desired, "nodes"), rule(f"node {desired.text('nodes')}", _MAP)
        bound, by_engine = (
            desired.text(key) == word
            for key, word in (("policy", numa_policy.BIND), ("by", numa_policy.ENGINE))
        )
        outside, alone = {}, set()
        for process in processes:
            if not bound and _no_choice(process, nodes):
                continue
            observed = _memory(process, nodes, allowed_counts=bound and not by_engine)
            if isinstance(observed, Unmeasured):
                yield _unread(unit, process, "its memory policy", observed)
                continue
            alone |= observed if len(observed) == 1 else set()
            if not observed <= nodes:
                outside[_told(process)] = cpulist.format(observed)
        if outside:
            message = _some(outside, "takes memory from node")
            summary = f"{unit}: {message}, not only from {desired.text('nodes')}"
            yield _failed(unit, summary, outside, requested)
        elif by_engine and nodes - alone:
            free = cpulist.format(nodes - alone)
            summary = f"{unit}: no process is bound to node {free}, the engine does not bind itself"
            yield _failed(unit, summary, {"bound to": cpulist.format(alone) or "none"}, requested)

    yield from _each(
        expect, state, check_replica, "every process has its memory where its GPUs are"
    )


@check("placement.gpus")
def gpus(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every replica that runs was started with the GPUs that the layout gives it, and no others."""

    def check_replica(unit: str, desired: View, processes: list[View]) -> Iterator[Finding]:
        named = desired.get(list, "gpus")
        if isinstance(named, Missing):
            return  # an older document
        if isinstance(named, Unmeasured) or not named or not all(isinstance(g, str) for g in named):
            raise Unexpected(f"{desired.path}.gpus: it must be a list of UUIDs")
        requested = rule(", ".join(named), "the layout, made from this node's own GPUs")
        given: set[str] = set()
        outside = {}
        for process in processes:
            observed = process.get(list, "gpus")
            if isinstance(observed, Unmeasured):
                yield _unread(unit, process, "its GPUs", observed)
                return
            given |= {str(gpu) for gpu in observed}
            if foreign := sorted({str(gpu) for gpu in observed} - {*named}):
                outside[_told(process)] = ", ".join(foreign)
        if outside:
            summary = f"{unit}: {_some(outside, 'was started with')}, which the layout gives others"
            yield _failed(unit, summary, outside, requested)
        elif not given:
            yield replace(unread(f"the GPUs of {unit}", Unmeasured(_NONE_TOLD)), subject=unit)
        elif missing := [gpu for gpu in named if gpu not in given]:
            summary = f"{unit}: it was started without {', '.join(missing)}"
            yield _failed(unit, summary, {"it has": ", ".join(sorted(given))}, requested)

    yield from _each(
        expect, state, check_replica, "every replica has the GPUs that the layout gives it"
    )


def _each(
    expect: Expectation, state: StateView, check_replica: ReplicaCheck, all_well: str
) -> Iterator[Finding]:
    """What `check_replica` finds on every unit that runs, or that all is well."""
    requested = expect.requested("placement", dict)
    if requested is None:
        yield passed(NOT_ASKED)
        return
    found: list[Finding] = []
    judged = 0
    for unit in sorted(requested):
        active = state.text("units", unit, "active")
        if isinstance(active, Unmeasured):
            found.append(replace(unread(f"whether {unit} runs", active), subject=unit))
        elif active in _RUNNING:
            judged += 1
            found += _judged(unit, expect.at("placement", unit), state, check_replica)
    yield from found or [passed(all_well if judged else "no replica runs that could be judged")]


def _judged(
    unit: str, desired: View, state: StateView, check_replica: ReplicaCheck
) -> list[Finding]:
    """Findings of one unit; a unit that runs and shows no process was not measured."""
    processes = state.items("processes")
    if isinstance(processes, Unmeasured):
        return [replace(unread(f"the processes of {unit}", processes), subject=unit)]
    own = [process for process in processes if process.at("unit").raw() == unit]
    if not own:
        none = Unmeasured("it runs, and no process of it was seen")
        return [replace(unread(f"the processes of {unit}", none), subject=unit)]
    return list(check_replica(unit, desired, own))


def _numbers(desired: View, key: str) -> set[int]:
    """The CPUs or nodes that the expectation names; it raises Unexpected for anything else."""
    text = desired.text(key)
    try:
        numbers = {*cpulist.parse(text)} if isinstance(text, str) else set()
    except ValueError:
        numbers = set()
    if not numbers:
        raise Unexpected(f"{desired.path}.{key}: it must be a list such as 0-3,8")
    return numbers


def _read(process: View, key: str) -> set[int] | Unmeasured:
    """The CPUs or nodes of a reading."""
    text = process.text(key)
    if isinstance(text, Unmeasured):
        return text
    try:
        return {*cpulist.parse(text)}
    except ValueError as error:
        return Unmeasured(f"{process.path}.{key}: {error}")


def _memory(process: View, nodes: set[int], allowed_counts: bool) -> set[int] | Unmeasured:
    """The nodes a process is bound to, none where it is not bound.

    With *allowed_counts* one that is not bound takes from every node it is allowed: a container is
    kept on its nodes by that and by no policy.
    """
    bound = _read(process, "numa_maps_bound")
    if bound or not allowed_counts:
        return bound
    allowed = _read(process, "mems")
    if isinstance(allowed, Unmeasured) or allowed <= nodes:
        return allowed
    return bound if isinstance(bound, Unmeasured) else allowed


def _no_choice(process: View, nodes: set[int]) -> bool:
    """Whether the kernel lets it have these nodes alone, or none of them.

    None of them: a map that is only shown, as on a lab's simulated node.
    """
    allowed = _read(process, "mems")
    return not isinstance(allowed, Unmeasured) and (allowed <= nodes or not allowed & nodes)


def _told(process: View) -> str:
    """A process as findings name it."""
    name, pid = process.text("comm"), process.number("pid")
    return f"{name or 'a process'} (pid {'unknown' if isinstance(pid, Unmeasured) else pid})"


def _some(outside: dict[str, str], verb: str) -> str:
    """The first of the processes that are elsewhere, and how many more there are."""
    name, where = next(iter(outside.items()))
    more = len(outside) - 1
    return f"{name} {verb} {where}" + (f" (and {more} more)" if more else "")


def _unread(unit: str, process: View, what: str, reason: Unmeasured) -> Finding:
    finding = unread(f"{unit}: {_told(process)}: {what}", reason)
    return replace(finding, subject=unit, part=_told(process))


def _failed(unit: str, summary: str, outside: dict[str, str], requested: Expected) -> Finding:
    read = "; ".join(f"{name}: {where}" for name, where in outside.items())
    return replace(failed(summary, read, requested, Action.RESTART_SERVICE), subject=unit)
