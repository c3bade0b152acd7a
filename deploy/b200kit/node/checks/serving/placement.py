"""Where the processes of the replicas really run, and on which GPUs, against the layout.

A pin that silently did not take hold costs latency and nothing else shows it: vLLM only warns when
it cannot bind, and a system call filter can take the binding away (SystemCallFilter=~@resources).
So what is judged is what the kernel says of each process. Only units that are active are judged,
and only where the expectation names them: before anything serves there is nothing to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from b200kit.node.checks.findings import failed, passed, rule, unread, within
from b200kit.node.checks.judge import check
from b200kit.node.checks.serving.units import which_run
from b200kit.node.lib import cpulist
from b200kit.node.placement import numa_policy
from b200kit.node.state.expectation import Expectation, Expected, Unexpected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread, View

NOT_ASKED = "no placement of replicas is asked for"
_MAP = "the layout, made from this node's own NUMA map"
LIMITS = {"memlock": -1, "nofile": 65535}
"""The least soft limits, -1 for none: what the unit gives, and what vLLM raises its own to."""
_LIMITS = rule("memlock unlimited, nofile 65535", "pinned memory; vllm/utils, set_ulimit")
_NONE_TOLD = "no process of it shows CUDA_VISIBLE_DEVICES in its environment"
ReplicaCheck = Callable[[str, View, list[View]], Iterator[Finding]]


@check("placement.cpus")
def cpus(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A replica that runs has the CPUs that the layout gives it, all of them and no others.

    A process may have fewer, as a worker that pins itself; where memory is not bound, as on a lab's
    simulated node, the kernel may not have them all.
    """

    def check_replica(unit: str, desired: View, processes: list[View]) -> Iterator[Finding]:
        allowed = _numbers(desired, "cpus")
        requested = rule(f"CPUs {desired.text('cpus')}", _MAP)
        given: set[int] = set()

        def elsewhere(process: View) -> str | None:
            observed = _read(process, "cpus")
            given.update(observed)
            return None if observed and observed <= allowed else cpulist.format(observed)

        outside, unknown = _outside(unit, processes, elsewhere)
        yield from unknown
        if outside:
            message = _some(outside, "may run on CPUs")
            summary = f"{unit}: {message}, not only on {desired.text('cpus')}"
            yield _failed(unit, summary, outside, requested)
        elif not unknown and given < allowed and desired.reading("policy") == numa_policy.BIND:
            has = cpulist.format(given)
            summary = (
                f"{unit}: its processes may run on {len(given)} of its {len(allowed)} CPUs: {has}"
            )
            yield _failed(unit, summary, {"all together": has}, requested)

    yield from _each(expect, state, check_replica, "every process is on the CPUs of its replica")


@check("placement.memory")
def memory(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every process of a replica that runs takes its memory from the NUMA nodes of its GPUs."""

    def check_replica(unit: str, desired: View, processes: list[View]) -> Iterator[Finding]:
        nodes, requested = _numbers(desired, "nodes"), rule(f"node {desired.text('nodes')}", _MAP)
        bound, by_engine = (
            desired.reading(key) == word
            for key, word in (("policy", numa_policy.BIND), ("by", numa_policy.ENGINE))
        )
        alone: set[int] = set()

        def elsewhere(process: View) -> str | None:
            if not bound and _no_choice(process, nodes):
                return None
            observed = _memory(process, nodes, allowed_counts=bound and not by_engine)
            alone.update(observed if len(observed) == 1 else ())
            return None if observed <= nodes else cpulist.format(observed)

        outside, unknown = _outside(unit, processes, elsewhere)
        yield from unknown
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


@check("serving.limits")
def limits(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every process of a replica that runs may lock all memory and open the files that vLLM wants.

    A limit that did not take hold shows in no setting of the node: units have their own.
    """

    def check_replica(unit: str, desired: View, processes: list[View]) -> Iterator[Finding]:
        def elsewhere(process: View) -> str | None:
            if process.is_missing("soft_limits"):
                return None  # an older document
            found = {name: process.number("soft_limits", name) for name in LIMITS}
            less = {n: v for n, v in found.items() if v != -1 and not 0 <= LIMITS[n] <= v}
            return ", ".join(f"{name} {value}" for name, value in less.items()) or None

        outside, unknown = _outside(unit, processes, elsewhere)
        yield from unknown
        if outside:
            summary = f"{unit}: {_some(outside, 'has a soft limit of')}"
            yield _failed(unit, summary, outside, _LIMITS)

    if not state.is_missing("kernel", "raises_limits") and not state.flag(
        "kernel", "raises_limits"
    ):
        yield passed("no limit can be raised here, as in a container")
        return
    yield from _each(expect, state, check_replica, "every process has the limits that it needs")


@check("placement.gpus")
def gpus(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every replica that runs was started with the GPUs that the layout gives it, and no others."""

    def check_replica(unit: str, desired: View, processes: list[View]) -> Iterator[Finding]:
        if desired.is_missing("gpus"):
            return  # an older document
        named = desired.get(list, "gpus")
        if not named or not all(isinstance(gpu, str) for gpu in named):
            raise Unexpected(f"{desired.path}.gpus", "it must be a list of UUIDs")
        requested = rule(", ".join(named), "the layout, made from this node's own GPUs")
        given: set[str] = set()

        def elsewhere(process: View) -> str | None:
            observed = {str(gpu) for gpu in process.get(list, "gpus")}
            given.update(observed)
            return ", ".join(sorted(observed - {*named})) or None

        outside, unknown = _outside(unit, processes, elsewhere)
        yield from unknown
        if outside:
            summary = f"{unit}: {_some(outside, 'was started with')}, which the layout gives others"
            yield _failed(unit, summary, outside, requested)
        elif unknown:
            return  # it may have the others
        elif not given:
            raise Unread("its GPUs", _NONE_TOLD)
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
    if expect.requested(dict, "placement") is None:
        yield passed(NOT_ASKED)
        return
    running, found = which_run(sorted(expect.names("placement")), state)
    for unit in running:
        judged = _judged(unit, expect.at("placement", unit), state, check_replica)
        found += within(judged, subject=unit)
    yield from found or [passed(all_well if running else "no replica runs that could be judged")]


def _judged(
    unit: str, desired: View, state: StateView, check_replica: ReplicaCheck
) -> Iterator[Finding]:
    """Findings of one unit; a unit that runs and shows no process was not measured."""
    own = [process for process in state.items("processes") if process.reading("unit") == unit]
    if not own:
        raise Unread("its processes", "it runs, and no process of it was seen")
    yield from check_replica(unit, desired, own)


def _outside(
    unit: str, processes: list[View], elsewhere: Callable[[View], str | None]
) -> tuple[dict[str, str], list[Finding]]:
    """The processes that are elsewhere, with where, and a finding of each that was not read."""
    outside: dict[str, str] = {}
    unknown = []
    for process in processes:
        try:
            where = elsewhere(process)
        except Unread as error:
            unknown.append(unread(error, unit, _told(process)))
        else:
            outside |= {} if where is None else {_told(process): where}
    return outside, unknown


def _numbers(desired: View, key: str) -> set[int]:
    """The CPUs or nodes that the expectation names; it raises Unexpected for anything else."""
    try:
        numbers = {*cpulist.parse(desired.text(key))}
    except ValueError:
        numbers = set()
    if not numbers:
        raise Unexpected(f"{desired.path}.{key}", "it must be a list such as 0-3,8")
    return numbers


def _read(process: View, key: str) -> set[int]:
    """The CPUs or nodes of a reading."""
    text = process.text(key)
    try:
        return {*cpulist.parse(text)}
    except ValueError as error:
        where = f"{process.path}.{key}"
        raise Unread(where, f"{where}: {error}") from None


def _memory(process: View, nodes: set[int], allowed_counts: bool) -> set[int]:
    """The nodes a process is bound to, none where it is not bound.

    With *allowed_counts* one that is not bound takes from every node it is allowed: a container is
    kept on its nodes by that and by no policy.
    """
    bound = process.known(str, "numa_maps_bound")
    if allowed_counts and not bound:
        allowed = _read(process, "mems")
        if bound == "" or allowed <= nodes:
            return allowed
    return _read(process, "numa_maps_bound")


def _no_choice(process: View, nodes: set[int]) -> bool:
    """Whether the kernel lets it have these nodes alone, or none of them.

    None of them: a map that is only shown, as on a lab's simulated node.
    """
    try:
        allowed = _read(process, "mems")
    except Unread:
        return False
    return allowed <= nodes or not allowed & nodes


def _told(process: View) -> str:
    """A process as findings name it."""
    name, pid = process.known(str, "comm"), process.known(int, "pid")
    return f"{name or 'a process'} (pid {'unknown' if pid is None else pid})"


def _some(outside: dict[str, str], verb: str) -> str:
    """The first of the processes that are elsewhere, and how many more there are."""
    name, where = next(iter(outside.items()))
    more = len(outside) - 1
    return f"{name} {verb} {where}" + (f" (and {more} more)" if more else "")


def _failed(unit: str, summary: str, outside: dict[str, str], requested: Expected) -> Finding:
    read = "; ".join(f"{name}: {where}" for name, where in outside.items())
    return failed(summary, read, requested, Action.RESTART_SERVICE, subject=unit)
