"""Driver: the lockstep set at one exact version, pinned first, held after, running after a reboot.

b200kit/stages/support/driver_packages.py has the packages and the reasons. An upgrade and a
rollback are this same stage with another version in the inventory: what serves is stopped once the
new set is on the node's disk, the set is replaced, and the one reboot brings the new module; the
later stages start what served. Our own preferences are laid down before anything is
installed: they keep the set where it is, and the distribution's packages of the same names out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from b200kit.converge import apt
from b200kit.converge.stage import (
    Change,
    DesiredState,
    Stage,
    converge,
    install,
    install_change,
    unavailable,
)
from b200kit.node.placement.layout import Replica
from b200kit.node.state import drift
from b200kit.node.state.drift import File, NodeUnit, Package
from b200kit.node.state.view import StateView
from b200kit.run.node import Node
from b200kit.run.render import render
from b200kit.stages import serving_units
from b200kit.stages.support.driver_packages import DCGM, PERSISTENCED, Lockstep
from b200kit.stages.support.driver_set import stack

PREFERENCES = "/etc/apt/preferences.d/b200kit.pref"
_DROP_IN = f"/etc/systemd/system/{PERSISTENCED}.d/b200kit.conf"


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """Preferences, pinning package and set, held; units enabled for the next boot."""
    del layout
    lockstep = stack(node)
    return DesiredState(
        files=(
            File(PREFERENCES, _preferences(node, lockstep)),
            _persistence(node),
        ),
        packages=(lockstep.pinning, *lockstep.packages),
        units=_units(node, lockstep),
        probe_units=tuple(serving_units.units(node)),
    )


def _persistence(node: Node) -> File:
    """What keeps persistence mode on; a daemon that runs takes it by a restart."""
    restart = [f"restart:{unit}" for unit in serving_units.running(node, [PERSISTENCED])]
    return File(_DROP_IN, render("systemd/nvidia-persistenced.conf.j2"), notify=tuple(restart))


def _preferences(node: Node, lockstep: Lockstep) -> bytes:
    own = [p for p in (*lockstep.fabric, *lockstep.tools) if p.version]
    return render("apt/b200kit.pref.j2", driver=node.spec.driver, packages=own)


def _units(node: Node, lockstep: Lockstep) -> tuple[NodeUnit, ...]:
    """Enabled, not started: without its modules and the driver the fabric manager only fails."""
    units = [NodeUnit(name, active=False) for name in lockstep.units]
    if node.spec.dcgm:
        units.append(NodeUnit(DCGM, active=_is_loaded(node)))
    return tuple(units)


def _is_loaded(node: Node) -> bool:
    modules = (node.state or {}).get("modules")
    return isinstance(modules, dict) and modules.get("nvidia") == node.spec.driver


def plan(node: Node) -> list[Change]:
    """Preferences, the pin as a transaction of its own, then the set."""
    state, target = node.state or {}, desired(node, ())
    lockstep, known = stack(node), unavailable(node)
    followers = lockstep.followers(drift.versions(state))
    pin = drift.wrong_packages([lockstep.pinning], state, known)
    wrong = drift.wrong_packages([*lockstep.packages, *followers], state, known)
    elsewhere = [each for each in _from_elsewhere(node, lockstep) if each not in wrong]
    wrong = [*wrong, *elsewhere]
    gone = lockstep.foreign(drift.versions(state))
    half = apt.left(node)
    changes = []
    if half and not (pin or wrong or gone):
        changes.append(Change(f"configure {', '.join(half)}", apt.configure))
    changes += converge(node, DesiredState(files=target.files))
    if pin:
        changes.append(_pinning(lockstep.pinning, gone))
        gone = [name for name in gone if not _is_pin(name)]
    if wrong or gone:
        parts = {package.name for package in (*lockstep.driver, *lockstep.fabric, *followers)}
        if elsewhere or _exchanges([each for each in wrong if each.name in parts], state):
            changes += _making_way(node, lockstep, wrong)
        changes.append(_installing(node, lockstep, wrong, gone))
    return changes + converge(node, DesiredState(units=target.units))


def _from_elsewhere(node: Node, lockstep: Lockstep) -> list[Package]:
    """Members of the right version that another archive than the inventory's has built."""
    own = {repository.url.rstrip("/") for repository in node.spec.repositories}
    found = StateView(node.state or {}).known(dict, "automatic", "origins") or {}
    return [
        package
        for package in lockstep.packages
        if own and found.get(package.name) and own.isdisjoint(found[package.name])
    ]


def _is_pin(name: str) -> bool:
    return name.startswith("nvidia-driver-pinning-")


def _pinning(pin: Package, gone: Sequence[str]) -> Change:
    # Before anything it pins, so that no dependency is resolved to a newer branch.
    return install_change([pin], absent=[name for name in gone if _is_pin(name)])


def _exchanges(parts: Sequence[Package], state: Mapping[str, object]) -> bool:
    """Whether a part would become another one, not only be held, configured or added."""
    versions = drift.versions(state)
    return any(_becomes_another(part, versions.get(part.name)) for part in parts)


def _becomes_another(part: Package, installed: str | None) -> bool:
    if installed is None:
        return not part.optional
    return part.version is not None and not drift.same_version(installed, part.version)


def _making_way(node: Node, lockstep: Lockstep, wrong: Sequence[Package]) -> list[Change]:
    """Nothing may use the driver while its parts are exchanged, nor the fabric that it runs.

    What serves goes on until every package is on the node's disk: a mirror that is gone costs no
    request. The units that belong to the driver are started again by the reboot or, where none is
    needed, by the fabric stage.
    """
    serving = serving_units.running(node, serving_units.units(node))
    # DCGM need not go for a fabric manager: only another module wants all of them off the GPUs.
    daemons = (*([] if _is_loaded(node) else [DCGM]), *reversed(lockstep.units))
    own = serving_units.running(node, daemons)
    if not serving and not own:
        return []
    fetch = Change("fetch the packages of the set", lambda node: _fetch(node, wrong))
    return [fetch, _stopping(serving, own)]


def _fetch(node: Node, packages: Sequence[Package]) -> None:
    install(node, packages, fetch_only=True)


def _stopping(serving: Sequence[str], own: Sequence[str]) -> Change:
    again = "; started again by the later stages" if serving else ""
    return Change(
        f"stop {', '.join((*serving, *own))}{again}",
        lambda node: serving_units.stop(node, (*serving, *own)),
        ends=tuple(serving),
    )


def _installing(
    node: Node, lockstep: Lockstep, wrong: Sequence[Package], gone: Sequence[str]
) -> Change:
    """The transaction; its detail says what the set holds and what apt has none of."""
    change = install_change(wrong, drift.versions(node.state or {}), gone)
    # What was missing may have come meanwhile: this is the moment to ask again.
    again = [package for package in lockstep.packages if package.key in unavailable(node)]

    def act(node: Node) -> str:
        left_out = install(node, [*wrong, *again], gone)
        held = sum(package.hold and package.key not in left_out for package in lockstep.packages)
        message = f"{lockstep.version} set of {held} packages, held"
        return message + (f"; apt has none of {', '.join(left_out)}" if left_out else "")

    return Change(change.what, act)


STAGE = Stage(name="driver", desired=desired, plan=plan)
