"""What every stage is made of: what it wants, the changes it plans, and how they are made."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deploy.core import drift
from deploy.core.cause import unit_cause
from deploy.core.drift import File, Package, Unit
from deploy.core.layout import Replica
from deploy.remote import RemoteError
from deploy.run import Node


@dataclass(frozen=True)
class Wanted:
    """The managed part of a subsystem, and what else its plan must know about the node."""

    files: tuple[File, ...] = ()
    packages: tuple[Package, ...] = ()
    units: tuple[Unit, ...] = ()
    # Files that tell the plan something by being there, made by an act and not from a template.
    ask_files: tuple[str, ...] = ()
    # Files and units of an earlier, larger wish, which must go.
    gone_files: tuple[str, ...] = ()
    gone_units: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """One change: what a person reads, and the act that makes it (returns a detail, or None)."""

    what: str
    act: Callable[[Node], str | None]


@dataclass(frozen=True)
class Stage:
    """A stage of the pipeline."""

    name: str
    wanted: Callable[[Node, Sequence[Replica]], Wanted]
    plan: Callable[[Node], list[Change]]


def nothing(node: Node, layout: Sequence[Replica]) -> Wanted:
    """For stages that manage nothing themselves."""
    del node, layout
    return Wanted()


def nominal_layout(node: Node) -> list[Replica]:
    """A layout that names the right paths before any GPU has been seen."""
    return [
        Replica(number, (), (), (0,), "0", port) for number, port in enumerate(node.spec.ports())
    ]


def converge(node: Node, wanted: Wanted) -> list[Change]:
    """The changes that bring files, packages, owed acts and units to what is wanted, in order."""
    state = node.state or {}
    changed = drift.changed_files(wanted.files, state, node.nonce)
    wrong = drift.wrong_packages(wanted.packages, state)
    owed = [act for act in drift.owed(wanted.files, changed, state) if act != "reboot"]
    plan = []
    if changed:
        plan.append(Change(_describe(changed), lambda node: put(node, changed)))
    if wrong:
        plan.append(install_change(wrong))
    plan += [Change(act.replace(":", " "), _settle(act)) for act in owed]
    units = drift.wrong_units(wanted.units, state)
    if units:
        names = ", ".join(unit.name for unit in units)
        plan.append(Change(f"enable {names}", lambda node: enable(node, units)))
    return plan


def _describe(files: Sequence[File]) -> str:
    names = ", ".join(file.path for file in files[:3])
    return f"write {names}" + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def put(node: Node, files: Sequence[File]) -> None:
    """Write *files*, leaving a marker for each act they owe."""
    markers = sorted({drift.marker(act) for file in files for act in file.then})
    node.connected().put(files, markers)


def install_change(packages: Sequence[Package]) -> Change:
    """Install and hold *packages* as one apt transaction."""
    names = ", ".join(f"{p.name} {p.version}" if p.version else p.name for p in packages)
    return Change(f"install {names}", lambda node: install(node, packages))


# Errors of any index fail the update: a stale list would quietly install what it still knows.
_APT = (
    "DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2 "
    "-o Acquire::http::Timeout=20 -o Dpkg::Options::=--force-confold"
)
_LOG = "/var/log/b200kit-apt.log"


def install(node: Node, packages: Sequence[Package]) -> None:
    """apt update, finish what an interrupted dpkg left, install the exact versions, hold."""
    wanted = " ".join(shlex.quote(_apt_name(package)) for package in packages)
    held = " ".join(shlex.quote(package.name) for package in packages if package.hold)
    steps = [
        f"{_APT} update --error-on=any",
        "dpkg --configure -a",
        f"{_APT} install -y --no-install-recommends --allow-downgrades "
        f"--allow-change-held-packages {wanted}",
    ]
    if held:
        steps.append(f"apt-mark hold {held}")
    node.connected().run_logged(" && ".join(steps), _LOG)


def _apt_name(package: Package) -> str:
    if not package.version:
        return package.name
    exact = package.version if "-" in package.version else f"{package.version}-*"
    return f"{package.name}={exact}"


def _settle(act: str) -> Callable[[Node], None]:
    """Do an owed act such as "restart:haproxy.service" and remove its marker."""
    verb, _, subject = act.partition(":")
    commands = {
        "restart": f"systemctl daemon-reload && systemctl restart {subject}",
        "reload": f"systemctl daemon-reload && systemctl reload-or-restart {subject}",
        "sysusers": "systemd-sysusers",
        "daemon-reload": "systemctl daemon-reload",
    }

    def settle(node: Node) -> None:
        unit = shlex.quote(subject)
        try:
            node.connected().run(f"{commands[verb]} && rm -f {shlex.quote(drift.marker(act))}")
        except RemoteError as error:
            raise RemoteError(f"{act}: {error}; {why(node, unit)}") from None

    return settle


def enable(node: Node, units: Sequence[Unit]) -> None:
    """Enable *units* and start those that must run."""
    running = [unit.name for unit in units if unit.active]
    steps = ["systemctl daemon-reload", f"systemctl enable {' '.join(u.name for u in units)}"]
    if running:
        steps.append(f"systemctl start {' '.join(running)}")
    try:
        node.connected().run(" && ".join(steps))
    except RemoteError as error:
        raise RemoteError(f"{error}; {why(node, running[0])}" if running else str(error)) from None


def why(node: Node, unit: str) -> str:
    """The last telling line of a unit's journal, for the error of a unit that would not start."""
    result = node.connected().attempt(
        f"journalctl -u {unit} -b -n 400 -o cat --no-pager",
        timeout=20,
    )
    return f"{unit} says: {unit_cause(result.stdout.splitlines())}"
