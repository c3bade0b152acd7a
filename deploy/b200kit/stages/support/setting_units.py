"""The units that put settings in force at every boot: of each setting whose means is a unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from b200kit.node.checks.gpu import power
from b200kit.node.host import settings_in_force
from b200kit.node.host.settings_table import Setting
from b200kit.node.state.drift import File, Unit
from b200kit.node.state.view import StateView
from b200kit.run.remote import INSTALLED
from b200kit.run.render import render
from b200kit.stages.support.managed_settings import Managed

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

    def desired(self, managed: Managed) -> Unit:
        """Enabled; running, too, where it can act before the next boot."""
        return Unit(self.name, active=_ACTS[self.setting].can_act(managed.state))

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
