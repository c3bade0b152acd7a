"""One machine for all of these tests: booted once, deployed once, taken down whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.driving import Outcome
from tests.lab.lab import say
from tests.lab.paths import BRIDGE_ADDRESS
from tests.lab.vm import vm as virtual_machine
from tests.vm.driving import Machine
from tests.vm.readings import SETTINGS, before_and_after

# What the run is asked beyond the lab's inventory: settings that are off by default, too.
DISKS = tuple(f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_B200NVME{number}" for number in (0, 1))
DATA: dict[str, Any] = {
    "settings": SETTINGS,
    "storage": {"disks": [*DISKS]},
    "firewall": {"allow": [{"port": 8000, "from": [BRIDGE_ADDRESS]}], "rollback_s": 120},
    "time_servers": [BRIDGE_ADDRESS],
}


@dataclass(frozen=True)
class Deployed:
    """The machine as installed, the one run from that to serving, and the machine's boots in it."""

    before: dict[str, str]
    outcome: Outcome
    boots: int
    new_boot_id: bool
    same_process: bool


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for the machine takes minutes: `-m "not vm"` leaves it out."""
    for item in items:
        if "tests/vm/" in str(item.path) and "vm" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.vm)


@pytest.fixture(scope="session")
def vm() -> Iterator[Machine]:
    """The machine, bare; no lab before, no lab after."""
    lab.down()
    virtual_machine.up("healthy", say)
    yield Machine()
    lab.down()


@pytest.fixture(scope="session")
def deployed(vm: Machine) -> Deployed:
    """The machine after the one run that takes it from a bare system to a serving node."""
    before = {name: vm.on(shell) for name, shell in before_and_after().items()}
    boots, boot_id, pid = vm.boots(), vm.boot_id(), vm.process_id()
    outcome = vm.deploy(data=DATA)
    return Deployed(
        before=before,
        outcome=outcome,
        boots=vm.boots() - boots,
        new_boot_id=vm.boot_id() != boot_id,
        same_process=vm.process_id() == pid,
    )
