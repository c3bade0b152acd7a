"""Every setting of the operating system, as the running kernel has it after the one reboot."""

from __future__ import annotations

import pytest

from b200kit.catalog import load
from tests.vm.conftest import Deployed
from tests.vm.driving import Machine
from tests.vm.readings import READINGS, Reading, wanted

CASES = [
    pytest.param(name, reading, id=f"{name}-{number}")
    for name, readings in READINGS.items()
    for number, reading in enumerate(readings)
]


def test_each_setting_of_the_table_is_read_here() -> None:
    assert set(READINGS) == set(load.load().settings)
    assert set(READINGS) == set(wanted()), "a setting off by default is not asked for here"


@pytest.fixture(scope="session")
def seen(vm: Machine, deployed: Deployed) -> dict[str, str]:
    """What each shell line says on the machine."""
    lines = {reading.shell for readings in READINGS.values() for reading in readings}
    return {line: vm.on(line) for line in sorted(lines)}


@pytest.mark.parametrize(("name", "reading"), CASES)
def test_setting_is_in_force(name: str, reading: Reading, seen: dict[str, str]) -> None:
    assert seen[reading.shell] == reading.expected.format(wanted()[name])


def test_they_were_not_before(deployed: Deployed) -> None:
    before = deployed.before
    assert "iommu=pt" not in before["cmdline"]
    assert "/swapfile" in before["swaps"]
    assert before["numa_balancing"] == "1"
    assert before["max_map_count"] != "1048576"
    assert before["memlock"] != "unlimited"
    assert not before["driver"]
