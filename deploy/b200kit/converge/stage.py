"""What every stage is made of: what it wants, the changes it plans, and how they are made."""

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
from b200kit.node.state.drift import File, Package, Unit
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError


@dataclass(frozen=True)
class Wanted:
    """The managed part of a subsystem, and what else its plan must know about the node."""

    files: tuple[File, ...] = ()
    packages: tuple[Package, ...] = ()
    units: tuple[Unit, ...] = ()
    # Files that tell the plan something by being there, made by an act and not from a template.
    ask_files: tuple[str, ...] = ()
    # Units whose state tells the plan something, whatever it is.
    ask_units: tuple[str, ...] = ()
    # Parts of the observation that are read only when they are asked for, and what to read there.
    ask: Mapping[str, Any] = field(default_factory=dict)
    # Files and units of an earlier, larger wish, which must go.
    gone_files: tuple[str, ...] = ()
    gone_units: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """One change: what a person reads, and the act that makes it (returns a detail, or None)."""

    what: str
    act: Callable[[Node], str | None]
    # What a progress line says instead of "what", given the seconds since the change began.
    telling: Callable[[float], str] | None = None


@dataclass(frozen=True)
class Stage:
    """A stage of the pipeline."""

    name: str
    wanted: Callable[[Node, Sequence[Replica]], Wanted]
    plan: Callable[[Node], list[Change]]
    # Whether it has nothing to work with on a node whose fabric did not come up.
    needs_fabric: bool = False


def nothing(node: Node, layout: Sequence[Replica]) -> Wanted:
    """For stages that manage nothing themselves."""
    del node, layout
    return Wanted()


def nominal_layout(node: Node) -> list[Replica]:
    """A layout that names the right paths before any GPU has been seen."""
    shape = shapes.shape_of(node.spec)
    return [
        Replica(number, (), (), (0,), "0", port, **vars(shape))
        for number, port in enumerate(node.spec.ports())
    ]


def converge(node: Node, wanted: Wanted, also: Iterable[str] = ()) -> list[Change]:
    """The changes that bring files, packages, owed acts and units to what is wanted, in order.

    *also* are acts that are due for another reason than a file.
    """
    state = node.state or {}
    changed = drift.changed_files(wanted.files, state, node.nonce)
    wrong = drift.wrong_packages(wanted.packages, state, lacking(node))
    owed = sorted({*drift.owed(wanted.files, changed, state), *also} - {"reboot"})
    plan = []
    if changed:
        plan.append(Change(_describe(changed), lambda node: put(node, changed)))
    if wrong:
        plan.append(install_change(wrong, drift.versions(state)))
    plan += [Change(act.replace(":", " "), _settle(act)) for act in owed]
    units = drift.wrong_units(wanted.units, state)
    if units:
        names = ", ".join(unit.name for unit in units)
        plan.append(Change(f"enable {names}", lambda node: enable(node, units)))
    return plan


def lacking(node: Node) -> frozenset[str]:
    """Keys of the optional packages that apt on the node was found to have none of."""
    return drift.lacking(node.state or {}, [source.url for source in node.spec.repositories])


def _describe(files: Sequence[File]) -> str:
    names = ", ".join(file.path for file in files[:3])
    return f"write {names}" + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def put(node: Node, files: Sequence[File]) -> None:
    """Write *files*, leaving a marker for each act they owe."""
    markers = sorted({drift.marker(act) for file in files for act in file.then})
    node.connected().put(files, markers)


def install_change(
    packages: Sequence[Package], was: Mapping[str, str] | None = None, gone: Sequence[str] = ()
) -> Change:
    """Install and hold *packages* and remove *gone*, as one apt transaction.

    *was* has the versions that are on the node, for what a person reads.
    """
    names = [_told(package, (was or {}).get(package.name)) for package in packages]
    steps = [("remove", gone), ("install", names)]
    what = "; ".join(f"{verb} {', '.join(those)}" for verb, those in steps if those)
    return Change(what, lambda node: _lacking_told(install(node, packages, gone)))


def _told(package: Package, was: str | None) -> str:
    if not package.version:
        return package.name
    other = was is not None and not drift.same_version(was, package.version)
    return f"{package.name} {f'{was} -> ' if other else ''}{package.version}"


def _lacking_told(lacking: Sequence[str]) -> str | None:
    return f"left out, as apt has none: {', '.join(lacking)}" if lacking else None


def _settle(act: str) -> Callable[[Node], None]:
    """Do an owed act such as "restart:haproxy.service" and remove its marker."""
    command, unit = handlers.command(act), handlers.unit(act)

    def settle(node: Node) -> None:
        try:
            node.connected().run(f"{command} && rm -f {shlex.quote(drift.marker(act))}")
        except RemoteError as error:
            more = f"; {why(node, shlex.quote(unit))}" if unit else ""
            raise RemoteError(f"{act}: {error}{more}") from None

    return settle


def enable(node: Node, units: Sequence[Unit]) -> None:
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
    """The last telling line of a unit's journal, for the error of a unit that would not start."""
    result = node.connected().attempt(
        f"journalctl -u {unit} -b -n 400 -o cat --no-pager",
        timeout=20,
    )
    return f"{unit} says: {unit_cause(result.stdout.splitlines())}"
