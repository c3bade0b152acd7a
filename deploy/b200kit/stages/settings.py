"""Settings: what the operating system must be set to, and what of it is not in force on this node.

The plan goes by what is in force and not only by files: a value that somebody changed by hand is
put back, without a reboot unless only a boot brings it. After a change all is read back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from b200kit.catalog import settings as catalogue
from b200kit.converge.stage import Change, DesiredState, Stage, converge, removal
from b200kit.node.placement.layout import Replica
from b200kit.node.state.drift import File
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError, program_step
from b200kit.run.render import render
from b200kit.stages.support import boot_loader, setting_files, setting_units
from b200kit.stages.support.managed_settings import Managed, boot_means
from b200kit.stages.support.setting_units import SettingUnit

SYSCTL = "/etc/sysctl.d/99-zz-b200kit.conf"
GRUB = "/etc/default/grub.d/zz-b200kit.cfg"
TMPFILES = "/etc/tmpfiles.d/b200kit.conf"
MODPROBE = "/etc/modprobe.d/b200kit.conf"
PEOPLE = "/etc/security/limits.d/60-b200kit.conf"
SERVICES = "/etc/systemd/system.conf.d/60-b200kit.conf"
SWAP = "swap.target"
# Of an earlier version, which kept nouveau out by a file of its own.
_EARLIER = "/etc/modprobe.d/b200kit-nouveau.conf"
# Means to the act that puts it in force at once; a boot brings the others.
_AT_ONCE = {
    "sysctl": f"sysctl:{SYSCTL}",
    "tmpfiles": f"tmpfiles:{TMPFILES}",
    # With a subject, so that its marker is no other stage's.
    "limit": "daemon-reload:settings",
}
_NOTHING_MORE: dict[str, Any] = {
    **dict.fromkeys(("files", "units", "packages", "placement", "disks"), ()),
    "secrets": {},
}


@cache
def _units() -> Sequence[SettingUnit]:
    return setting_units.units(catalogue.load())


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """A drop-in for each means, and the units of those settings that a unit puts in force."""
    del layout
    managed = Managed(node)
    mine = [unit for unit in _units() if managed.applies(unit.setting)]
    return DesiredState(
        files=(*_files(managed), *(unit.file(managed, _AT_ONCE["limit"]) for unit in mine)),
        units=tuple(unit.desired(managed) for unit in mine),
        probe_units=(SWAP, *(unit.name for unit in _units())),
        absent_files=(_EARLIER, *(unit.path for unit in _units() if unit not in mine)),
        observe_request=managed.requested,
    )


def _files(managed: Managed) -> list[File]:
    table, chosen, state = managed.table, managed.chosen, managed.state
    words = setting_files.cmdline(table, chosen, state)
    options = setting_files.modprobe(table, chosen)
    services = setting_files.services(table, chosen, state)
    values = setting_files.tmpfiles(table, chosen, state)
    found = [
        _file(SYSCTL, "sysctl", setting_files.sysctls(table, chosen, state), _AT_ONCE["sysctl"]),
        _file(TMPFILES, "tmpfiles", values, _AT_ONCE["tmpfiles"]),
        _file(PEOPLE, "limits", setting_files.people(table, chosen, state)),
        _file(SERVICES, "manager", services, _AT_ONCE["limit"]),
        _file(MODPROBE, "modprobe", options, "update-initramfs", *_reboot(managed, "modprobe")),
    ]
    if not state.is_null("host", "grub_cmdline"):
        found.append(_file(GRUB, "grub", words, "update-grub", *_reboot(managed, "cmdline")))
    return found


def _file(path: str, template: str, lines: list[str], *notify: str) -> File:
    suffix = path.rpartition(".")[2]
    return File(path, render(f"host/{template}.{suffix}.j2", lines=lines), notify=notify)


def _reboot(managed: Managed, means: str) -> tuple[str, ...]:
    """A file notifies a reboot only where something of it is not in force yet."""
    return ("reboot",) if not managed.observed or managed.at_boot(means) else ()


def plan(node: Node) -> list[Change]:
    """Files, what they notify, what is not in force though the files are right, and the proof."""
    target, managed = desired(node, ()), Managed(node)
    drop_in = next((file for file in target.files if file.path == GRUB), None)
    changes = [
        *boot_loader.changes(node, managed, drop_in),
        *removal(node, target),
        *converge(node, target, also=_due(managed)),
        *_swap(managed),
    ]
    return [*changes, Change("read the settings back", _prove)] if changes else []


def _due(managed: Managed) -> set[str]:
    """The acts that put in force what drifted away; what was not read may be anything."""
    acts = {
        act
        for name, effect in managed.effects.items()
        for means, act in _AT_ONCE.items()
        if effect.wrong and means in managed.table[name].means
    }
    return acts | {f"restart:{unit.name}" for unit in _lost(managed) if unit.runs(managed)}


def _lost(managed: Managed) -> list[SettingUnit]:
    """The units whose settings are known not to be in force."""
    return [u for u in _units() if managed.applies(u.setting) and u.is_lost(managed)]


def _swap(managed: Managed) -> list[Change]:
    """Swap as asked: the target masked and nothing in use, or as the distribution has it.

    Masking leaves fstab alone and stops what the generators and fstab hang below the target.
    """
    asked = managed.chosen.get("swap")
    if asked is None:
        return []
    masked = managed.unit(SWAP).get("enabled") in ("masked", "masked-runtime")
    if masked == (asked == "off") and not managed.effects["swap"].wrong:
        return []
    noted = "true" if masked else program_step(f"note-masked {SWAP}")
    steps = f"{noted} && systemctl mask {SWAP} && swapoff -a"
    if asked == "on":
        steps = f"systemctl unmask {SWAP} && systemctl daemon-reload && swapon -a"
    return [Change(f"switch swap {asked}", _running(steps))]


def _running(command: str) -> Callable[[Node], None]:
    def act(node: Node) -> None:
        node.connected().run(command)

    return act


def _prove(node: Node) -> None:
    """Look again: raises RemoteError naming every setting that would not take."""
    requested = Managed(node).requested
    after = Managed(node, node.connected().observe({**_NOTHING_MORE, **requested}))
    refused = [
        f"{name} {effect.text}"
        for name, effect in after.effects.items()
        if boot_means(after.table[name]) is None and effect.wrong
    ]
    refused += [f"{unit.setting} is not what {unit.name} sets" for unit in _lost(after)]
    if refused:
        raise RemoteError(f"set, and did not take: {'; '.join(refused)}")


STAGE = Stage(name="settings", desired=desired, plan=plan)
