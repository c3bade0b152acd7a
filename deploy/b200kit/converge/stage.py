"""What every stage is made of: its desired state, the changes it plans, and how they are made."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from b200kit.converge import handlers
from b200kit.converge.apt import install as install
from b200kit.inventory import shape as shapes
from b200kit.node.lib.error_line import unit_cause
from b200kit.node.placement.layout import Replica
from b200kit.node.state import drift
from b200kit.node.state.drift import File, NodeUnit, Package
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError


@dataclass(frozen=True)
class DesiredState:
    """The managed part of a subsystem, and what else its plan must know about the node."""

    files: tuple[File, ...] = ()
    packages: tuple[Package, ...] = ()
    units: tuple[NodeUnit, ...] = ()
    # Files whose presence the plan depends on, made by a command and not from a template.
    probe_files: tuple[str, ...] = ()
    # Units whose state the plan depends on, whatever it is.
    probe_units: tuple[str, ...] = ()
    # Parts of the observation that are read only on request, and what to read there.
    observe_request: Mapping[str, Any] = field(default_factory=dict)
    # Files and units of an earlier configuration, which must be absent.
    absent_files: tuple[str, ...] = ()
    absent_units: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """One change: what a person reads, and the function that makes it (a detail, or None)."""

    what: str
    apply: Callable[[Node], str | None]
    # What a progress line says instead of "what", given the seconds since the change began.
    progress_text: Callable[[float], str] | None = None
    # Units that end while it is made, for a plan that says who is not served meanwhile.
    ends: tuple[str, ...] = ()
    # Whether it only looks: a dry run makes it too, to say what a run would be refused for.
    looks: bool = False
    # Whether users would spoil it: a node that others can stand in for is drained first.
    drained: bool = False
    # Whether it changes nothing of the node: what it finds bad was so before.
    measures: bool = False
    # Whether no later run can bring back what was before: a disk is formatted.
    final: bool = False


@dataclass(frozen=True)
class Stage:
    """A stage of the pipeline."""

    name: str
    desired: Callable[[Node, Sequence[Replica]], DesiredState]
    plan: Callable[[Node], list[Change]]


def nothing(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """For stages that manage nothing themselves."""
    del node, layout
    return DesiredState()


def nominal_layout(node: Node) -> list[Replica]:
    """A layout that names the right paths before any GPU has been seen."""
    shape = shapes.shape_of(node.spec)
    return [
        Replica(number, (), (), (0,), "0", port, **vars(shape))
        for number, port in enumerate(node.spec.ports())
    ]


def converge(node: Node, desired: DesiredState, also: Iterable[str] = ()) -> list[Change]:
    """The changes that bring files, packages, pending handlers and units to *desired*, in order.

    *also* are handlers to run for another reason than a file.
    """
    state = node.state or {}
    changed = drift.changed_files(desired.files, state, node.nonce)
    wrong = drift.wrong_packages(desired.packages, state, unavailable(node))
    pending = {*drift.pending_handlers(desired.files, changed, state), *also} - {"reboot"}
    plan = []
    if changed:
        plan.append(Change(_describe(changed), lambda node: put(node, changed)))
    if wrong:
        plan.append(install_change(wrong, drift.versions(state)))
    plan += [
        Change(handler.replace(":", " "), _run(handler), ends=handlers.ended(handler))
        for handler in sorted(pending)
    ]
    units = drift.wrong_units(desired.units, state)
    if units:
        names = ", ".join(unit.name for unit in units)
        plan.append(Change(f"enable {names}", lambda node: enable(node, units)))
    return plan


def removal(node: Node, desired: DesiredState) -> list[Change]:
    """What is to be absent and is there: units are stopped and disabled before their files go."""
    left = [path for path in desired.absent_files if drift.is_present(path, node.state or {})]
    units = [path.rpartition("/")[2] for path in left if path.startswith("/etc/systemd/system/")]
    steps = [f"systemctl disable --now {_words(unit for unit in units if '@' not in unit)}"]
    steps = [*(steps if any("@" not in unit for unit in units) else []), f"rm -rf {_words(left)}"]
    command = " && ".join([*steps, *(["systemctl daemon-reload"] if units else [])])
    return [Change(f"remove {', '.join(left)}", shell(command))] if left else []


def shell(command: str) -> Callable[[Node], None]:
    """The act of a change that is one command."""

    def act(node: Node) -> None:
        node.connected().run(command)

    return act


def unavailable(node: Node) -> frozenset[str]:
    """Keys of the optional packages that apt on the node was found not to have."""
    return drift.missing(node.state or {}, [source.url for source in node.spec.repositories])


def _describe(files: Sequence[File]) -> str:
    names = ", ".join(file.path for file in files[:3])
    return f"write {names}" + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def put(node: Node, files: Sequence[File]) -> None:
    """Write *files*, leaving a marker for each handler they notify."""
    handlers = {handler for file in files for handler in file.notify}
    markers = sorted(map(drift.pending_marker, handlers))
    node.connected().put(files, markers)


def install_change(
    packages: Sequence[Package], was: Mapping[str, str] | None = None, absent: Sequence[str] = ()
) -> Change:
    """Install and hold *packages* and remove *absent*, as one apt transaction.

    *was* has the versions that are on the node, for what a person reads.
    """
    names = [_version_change(package, (was or {}).get(package.name)) for package in packages]
    steps = [("remove", absent), ("install", names)]
    what = "; ".join(f"{verb} {', '.join(those)}" for verb, those in steps if those)
    return Change(what, lambda node: _left_out(install(node, packages, absent)))


def _version_change(package: Package, was: str | None) -> str:
    if not package.version:
        return package.name
    other = was is not None and not drift.same_version(was, package.version)
    return f"{package.name} {f'{was} -> ' if other else ''}{package.version}"


def _left_out(keys: Sequence[str]) -> str | None:
    return f"left out, as apt has none: {', '.join(keys)}" if keys else None


def _run(handler: str) -> Callable[[Node], None]:
    """Run a handler such as "restart:haproxy.service" and remove its marker."""
    command, unit = handlers.command(handler), handlers.unit(handler)

    def run(node: Node) -> None:
        try:
            marker = shlex.quote(drift.pending_marker(handler))
            node.connected().run(f"{command} && rm -f {marker}")
        except RemoteError as error:
            more = f"; {why(node, shlex.quote(unit))}" if unit else ""
            raise RemoteError(f"{handler}: {error}{more}") from None

    return run


def enable(node: Node, units: Sequence[NodeUnit]) -> None:
    """Enable *units* and start those that must run."""
    running = [unit.name for unit in units if unit.active]
    steps = ["systemctl daemon-reload", f"systemctl enable {_words(u.name for u in units)}"]
    if running:
        steps.append(f"systemctl start {_words(running)}")
    try:
        node.connected().run(" && ".join(steps))
    except RemoteError as error:
        raise RemoteError(f"{error}; {why(node, running[0])}" if running else str(error)) from None


def _words(names: Iterable[str]) -> str:
    # The unit of a mount point may have backslashes in its name.
    return " ".join(map(shlex.quote, names))


def why(node: Node, unit: str) -> str:
    """The cause in a unit's journal, for the error of a unit that would not start."""
    result = node.connected().attempt(
        f"journalctl -u {unit} -b -n 400 -o cat --no-pager",
        timeout=20,
    )
    return f"{unit} says: {unit_cause(result.stdout.splitlines())}"
