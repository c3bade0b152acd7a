"""What a management controller switches: the hosts of the lab, or lines of a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol

from tests.lab import cgroups, hosts
from tests.lab.paths import lab_paths
from tests.lab.seed import note_act
from tests.lab.state import read_state


class Machines(Protocol):
    """What has power."""

    def names(self) -> list[str]:
        """All of them."""

    def is_on(self, name: str) -> bool:
        """Whether it has power."""

    def fault(self, name: str) -> str | None:
        """What is wrong with its controller."""

    def switch(self, name: str, how: str) -> None:
        """How: cut, shut-down or on."""


class FileMachines:
    """Machines that are lines of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _read(self) -> dict[str, dict[str, Any]]:
        document: dict[str, dict[str, Any]] = json.loads(self._path.read_text("utf-8"))
        return document

    def names(self) -> list[str]:
        """See Machines."""
        return list(self._read())

    def is_on(self, name: str) -> bool:
        """See Machines."""
        return bool(self._read()[name]["power"] == "On")

    def fault(self, name: str) -> str | None:
        """See Machines."""
        return self._read()[name].get("fault")

    def switch(self, name: str, how: str) -> None:
        """See Machines; keeps what was asked under "asked"."""
        document = self._read()
        document[name]["power"] = "On" if how == "on" else "Off"
        document[name].setdefault("asked", []).append(how)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(document), "utf-8")
        os.replace(fresh, self._path)


class LabMachines:
    """The simulated nodes of this lab."""

    def names(self) -> list[str]:
        """See Machines."""
        state = read_state(lab_paths())
        return [host["name"] for host in state.get("hosts", []) if "kind" not in host]

    def is_on(self, name: str) -> bool:
        """See Machines."""
        return cgroups.condition(name) != "stopped"

    def fault(self, name: str) -> str | None:
        """See Machines."""
        path = lab_paths().bmc / "faults.json"
        return json.loads(path.read_text("utf-8")).get(name) if path.exists() else None

    def switch(self, name: str, how: str) -> None:
        """See Machines."""
        if how == "cut":
            hosts.kill(name)
        elif how == "on":
            note_act(lab_paths().host(name) / "root", "power-cycle")
            hosts.boot(lab_paths(), name)
        else:
            hosts.press_power_button(name)
