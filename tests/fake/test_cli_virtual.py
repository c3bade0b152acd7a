"""Virtual machines by the whole CLI: the wrong file ends in one line, the right one in live."""

from __future__ import annotations

import pytest

from tests.fake.fleet import Fleet, Outcome
from tests.fake.machine import KERNEL, READINESS
from tests.messages import assert_message
from tests.unit import states

GUEST = "healthy-hgx-b200-vm"
AS_GUEST = ("--data", "hardware=hgx-b200-vm")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A guest, one whose switches are passed through, and bare metal."""
    fleet = Fleet(tmp_path_factory.mktemp("virtual") / "site")
    for name in ("guest", "inside", "metal"):
        hardware = states.recorded(GUEST)
        hardware["pci"]["nics"][0]["switch_management"] = name == "inside"
        hardware["cpus"]["hypervisor"] = name != "metal"
        machine = fleet.add(name, hardware)
        word = "none" if name == "metal" else "kvm"
        kind = {**READINESS, "headers": {KERNEL: True}, "virtualization": word}
        machine.readings = {"readiness": kind}
        machine.save()
    return fleet


def lines(outcome: Outcome) -> list[str]:
    """What each node is told."""
    return [f"{name}: {outcome.hosts[name]['error']}" for name in sorted(outcome.hosts)]


def test_file_of_bare_metal_names_the_other_before_anything_is_changed(fleet: Fleet) -> None:
    run = fleet.run("b200.py", "--limit", "guest", "--limit", "inside")
    assert run.outcomes == {"guest": "failed", "inside": "failed"}, run.stderr
    assert_message(*lines(run))
    assert fleet.machine("guest").files == fleet.machine("guest").packages == {}


def test_file_of_guests_refuses_bare_metal_and_brings_the_guest_to_live(fleet: Fleet) -> None:
    run = fleet.run("b200.py", *AS_GUEST)
    assert run.outcomes == {"guest": "live", "inside": "failed", "metal": "failed"}, run.stderr
    assert_message(*(line for line in lines(run) if not line.startswith("guest")))
    packages = fleet.machine("guest").packages
    assert "nvidia-open" in packages
    assert not [n for n in packages if "fabric" in n or n in ("nvlsm", "libnvsdm")]
    assert "b200-acs.service" not in fleet.machine("guest").units
    again = fleet.run("b200.py", "--limit", "guest", *AS_GUEST)
    assert again.outcomes == {"guest": "live"}
    assert again.hosts["guest"]["changes"] == 0
