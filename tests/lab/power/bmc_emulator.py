"""The real Redfish emulator of sushy-tools, over machines of the lab or over machines of a file.

A program of its own: `python -m tests.lab.power.bmc_emulator CONFIG [STATE]`. CONFIG is
sushy-tools' own configuration file. STATE, a JSON file `{name: {"power": "On", "fault": ...}}`,
stands for machines in tests that boot none; without it they are the hosts of the lab, and only
faults are read from
`bmc-faults.json` there. Faults: "stuck" ignores every switch, "deaf" ignores a shutdown, "bare"
knows no shutdown.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sushy_tools import error  # type: ignore[import-untyped]
from sushy_tools.emulator import main  # type: ignore[import-untyped]
from sushy_tools.emulator.resources.systems import base  # type: ignore[import-untyped]

from tests.lab.power.bmc_machines import FileMachines, LabMachines, Machines
from tests.lab.power.bmc_system import system_id

_OFF, _ON = ("ForceOff", "GracefulShutdown"), ("On", "ForceOn")


class Systems(base.AbstractSystemsDriver):  # type: ignore[misc]
    """sushy-tools' driver interface, in front of *machines*."""

    machines: Machines = LabMachines()

    @classmethod
    def initialize(cls, config: dict[str, Any], logger: Any) -> type[Systems]:
        """Called by the emulator, which wants something to call in return."""
        super().initialize(config, logger)
        return cls

    @property
    def driver(self) -> str:
        """What the emulator calls it."""
        return "<b200kit lab>"

    @property
    def systems(self) -> list[str]:
        """Ids of all machines."""
        return [system_id(name) for name in self.machines.names()]

    def _name(self, identity: str) -> str:
        for name in self.machines.names():
            if identity in (name, system_id(name)):
                return name
        raise error.NotFound(f"no system {identity}")

    def uuid(self, identity: str) -> str:
        """Id of a machine by its id or name."""
        return system_id(self._name(identity))

    def name(self, identity: str) -> str:
        """Name of a machine by its id or name."""
        return self._name(identity)

    def get_power_state(self, identity: str) -> str:
        """As the emulator writes it: On or Off."""
        return "On" if self.machines.is_on(self._name(identity)) else "Off"

    def set_power_state(self, identity: str, state: str) -> None:
        """Switch, unless a fault of the controller keeps it from that."""
        name = self._name(identity)
        fault, is_on = self.machines.fault(name), self.machines.is_on(name)
        if state not in _OFF + _ON or (fault == "bare" and state == "GracefulShutdown"):
            raise error.NotSupportedError(f"reset type {state} is not supported")
        if fault == "stuck" or (fault == "deaf" and state == "GracefulShutdown"):
            return
        if state in _ON and not is_on:
            self.machines.switch(name, "on")
        elif state in _OFF and is_on:
            self.machines.switch(name, "cut" if state == "ForceOff" else "shut-down")

    def get_boot_device(self, identity: str) -> str:
        """Nobody asks it to boot from elsewhere."""
        return "Hdd"

    def set_boot_device(self, identity: str, boot_source: str) -> None:
        """Not emulated."""
        raise error.NotSupportedError("boot devices are not emulated")

    def get_nics(self, identity: str) -> list[dict[str, str]]:
        """None are reported."""
        return []


def serve(config: str, state: str | None) -> int:
    """Run the emulator until it is stopped."""
    if state:
        Systems.machines = FileMachines(Path(state))
    # Its own choice of drivers is closed; the one meant for tests makes room for ours.
    main.fakedriver.FakeDriver = Systems
    sys.argv = ["sushy-emulator", "--config", config, "--fake"]
    return int(main.main())


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
