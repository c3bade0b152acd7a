"""Settings: what the operating system must be set to, and what of it is not in force on this node.

The plan goes by what is in force and not only by files: a value that somebody changed by hand is
put back, without a reboot unless only a boot brings it. After a change all is read back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from b200kit.catalog import settings as catalogue
from b200kit.converge.stage import Change, DesiredState, Stage, converge, removal, shell
from b200kit.node.checks.gpu import power
from b200kit.node.host import settings_in_force
from b200kit.node.host.settings_in_force import Effect
from b200kit.node.host.settings_table import Setting
from b200kit.node.placement.layout import Replica
from b200kit.node.state import drift
from b200kit.node.state.drift import PENDING_REBOOT, File, NodeUnit
from b200kit.node.state.view import StateView
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import INSTALLED, RemoteError, program_step
from b200kit.run.render import render
from b200kit.stages.support import setting_files
from b200kit.stages.support.managed_settings import Managed, boot_means

_HANDLER = "update-grub"


def _boot_changes(node: Node, managed: Managed, drop_in: File | None) -> list[Change]:
    """What comes before the drop-in's own; nothing where the kernel command line is right.

    A reboot is made pending only where it can help: never again and again on a node whose kernel
    gets its command line from something else than GRUB. Raises StageFailed where nothing of ours
    would help: another boot loader, or another file.
    """
    wrong = managed.at_boot("cmdline")
    if not wrong:
        return []
    message = "; ".join(f"{effect.name} {effect.text}" for effect in wrong)
    if drop_in is None:
        raise StageFailed(
            f"{message}. It has no update-grub: give the words to its boot loader and reboot "
            f"it, or leave the settings to somebody else (settings = {_none(wrong)})"
        )
    changed = drift.changed_files([drop_in], managed.raw, node.nonce)
    if changed or drift.is_present(PENDING_REBOOT, managed.raw):
        return []
    if drift.is_present(drift.pending_marker(_HANDLER), managed.raw):
        return [_require_reboot()]
    if not _lacking(managed, wrong):
        raise StageFailed(
            f"{message}. GRUB's configuration has what is asked, so the node boots another way or "
            "another file says otherwise (/etc/default/grub): repair that and reboot the node"
        )
    update = f"{_HANDLER} && rm -f {drift.pending_marker(_HANDLER)}"
    return [_require_reboot(), Change(_HANDLER, shell(update))]


def _lacking(managed: Managed, wrong: Sequence[Effect]) -> bool:
    """Whether GRUB's configuration misses any of the words; one that was not read does."""
    configured = managed.state.text("host", "grub_cmdline") or ""
    return any(settings_in_force.missing(effect.desired.split(), configured) for effect in wrong)


def _none(effects: Sequence[Effect]) -> str:
    return "{" + ", ".join(f'"{effect.name}": None' for effect in effects) + "}"


def _require_reboot() -> Change:
    """Leave both markers first: a run killed after this is finished by the next."""
    marks = (PENDING_REBOOT, drift.pending_marker(_HANDLER))
    steps = [f"mkdir -p {path.rpartition('/')[0]} && touch {path}" for path in marks]
    return Change("require a reboot", shell(" && ".join(steps)))


_UNITS = "/etc/systemd/system"


@dataclass(frozen=True)
class Act:
    """What is known of the act of a unit.

    *drifted*: whether what it sets to a value is known not to be in force; *can_act*: whether it
    can work before the next boot.
    """

    drifted: Callable[[StateView, object], bool]
    can_act: Callable[[StateView], bool]


_ACTS = {
    "acs": Act(lambda state, value: settings_in_force.redirects(state), lambda state: True),
    "power_limit_w": Act(power.is_other, power.has_gpus),
}


@dataclass(frozen=True)
class SettingUnit:
    """One unit, and the setting that it is for."""

    setting: str
    name: str

    @property
    def path(self) -> str:
        """Its file on a node."""
        return f"{_UNITS}/{self.name}"

    def file(self, managed: Managed, reload: str) -> File:
        """The unit with the value that is asked for."""
        value = managed.chosen[self.setting]
        content = render(f"systemd/{self.name}.j2", program=INSTALLED, value=value)
        return File(self.path, content, notify=(reload,))

    def desired(self, managed: Managed) -> NodeUnit:
        """Enabled; running, too, where it can act before the next boot."""
        return NodeUnit(self.name, active=_ACTS[self.setting].can_act(managed.state))

    def runs(self, managed: Managed) -> bool:
        """Whether it ran, and so need not be started."""
        return managed.unit(self.name).get("active") == "active"

    def is_lost(self, managed: Managed) -> bool:
        """Whether what it sets is known not to be in force."""
        act = _ACTS[self.setting]
        return act.can_act(managed.state) and act.drifted(
            managed.state, managed.chosen[self.setting]
        )


def units(table: Mapping[str, Setting]) -> list[SettingUnit]:
    """Those of a table of settings, in its order."""
    means = {name: setting.means for name, setting in table.items()}
    return [SettingUnit(name, by["unit"]) for name, by in means.items() if "unit" in by]


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
    return units(catalogue.load())


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
        *_boot_changes(node, managed, drop_in),
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
    return [Change(f"switch swap {asked}", shell(steps))]


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
