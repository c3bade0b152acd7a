"""The virtual machine without starting it: its arguments, its disk, what it is given."""

from __future__ import annotations

import re
import tarfile
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.lib import timestamp
from b200kit.serving import engine_install
from tests.lab import ssh
from tests.lab.hardware.scenario import render
from tests.lab.paths import LabError, LabPaths
from tests.lab.shell import run
from tests.lab.supply import wheels
from tests.lab.supply.systems import DEFAULT
from tests.lab.vm import disk, engine_disk, machine, process, recipe
from tests.lab.vm import inventory as vm_inventory
from tests.lab.vm.seed import write_seed
from tests.unit import states

ROOT = Path(__file__).resolve().parents[3]
GPUS = render("healthy", machine.NUMA_NODES)["gpus"]


@pytest.fixture
def command(tmp_path: Path) -> str:
    disks = machine.Disks(tmp_path / "d", [tmp_path / "n0", tmp_path / "n1"], tmp_path / "data")
    return " ".join(
        machine.command(
            disks=disks,
            gpus=GPUS,
            network=machine.tap("labvm0", "02:b2:00:00:01:00"),
            seed=tmp_path / "seed",
            console=tmp_path / "log",
        )
    )


def test_each_gpu_has_a_device_at_its_own_address_on_its_own_node(command: str) -> None:
    expanders = re.findall(r"pxb-pcie,id=x(\d),bus_nr=(\d+),numa_node=(\d)", command)
    message = [(f"0000:{int(bus) + 1:02x}:00.0", int(node)) for _, bus, node in expanders]
    assert message == [(gpu["pci_address"], gpu["numa_node"]) for gpu in GPUS]
    assert command.count("pci-testdev") == len(GPUS)


def test_engine_lies_where_the_toolkit_puts_it(tmp_path: Path) -> None:
    lab = LabPaths(tmp_path)
    (lab.mirror / "wheels").mkdir(parents=True)
    requirements = lab.mirror / "wheels" / wheels.REQUIREMENTS
    requirements.write_text("vllm==1 --hash=sha256:00\n")
    given = SimpleNamespace(engine=SimpleNamespace(image=None, requirements=str(requirements)))
    node: Any = SimpleNamespace(spec=given)
    assert engine_disk.place(lab) == engine_install.engine_dir(node)


@pytest.mark.parametrize("change", ["PACKAGES", "GRUB", "guest"])
def test_image_is_made_again_when_its_recipe_changes(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = recipe.stamp(DEFAULT)
    if change == "PACKAGES":
        monkeypatch.setattr(recipe, "PACKAGES", (*recipe.PACKAGES, "sl"))
    elif change == "GRUB":
        monkeypatch.setitem(recipe.FILES, "etc/default/grub", "GRUB_TIMEOUT=5\n")
    else:
        monkeypatch.setattr(recipe, "guest_files", dict)
    assert recipe.stamp(DEFAULT) != before


def test_seed_holds_keys_and_devices_and_belongs_to_root(tmp_path: Path) -> None:
    lab = LabPaths(tmp_path / "lab")
    ssh.ensure_keys(lab)
    write_seed(lab, "healthy", tmp_path / "seed.tar")
    with tarfile.open(tmp_path / "seed.tar") as archive:
        members = {member.name: member for member in archive.getmembers()}
    assert members["etc/ssh/ssh_host_ed25519_key"].mode & 0o777 == 0o600
    assert members["usr/lib/b200-vm/power-on"].mode & 0o111
    assert {"etc/b200-lab/scenario.json", "usr/lib/b200-lab/lab_firmware/vm.py"} <= set(members)
    assert {(member.uid, member.uname) for member in members.values()} == {(0, "root")}
    assert not [name for name in members if name.endswith(".pyc")]


def test_process_that_is_not_ours_is_never_ended(tmp_path: Path) -> None:
    """The id of a machine that is gone may be another process's by now."""
    import json
    import os

    record = {"pid": os.getpid(), "started": "1"}
    (tmp_path / "process.json").write_text(json.dumps(record))
    assert process.pid_of(tmp_path) is None
    assert process.stop(tmp_path) is False


def test_virtual_machine_is_judged_as_the_metal_that_it_plays() -> None:
    lab = {"engine": {"stand_in": True}, "mirror": defaultdict(str)}
    plain: dict[str, Any] = {"engine": {"environment": {}}}
    expect, state = states.expectation(), states.healthy()
    expect["today"] = timestamp.today()
    state["cpus"]["hypervisor"] = True
    state["readiness"] = {**state.get("readiness", {}), "virtualization": "kvm"}
    data = vm_inventory.data(plain, lab, {"console": ""})
    assert judge(expect, state).fit == "unfit"
    assert judge({**expect, "waivers": data["waivers"]}, state).fit == "fit"


@pytest.fixture
def small_image(tmp_path: Path) -> Path:
    """A partitioned image of 16 MiB whose file system has one folder."""
    (tmp_path / "root/var/lib").mkdir(parents=True)
    disk.make_image(tmp_path / "disk.raw", tmp_path / "root", 16)
    return tmp_path / "disk.raw"


def debugfs(image: Path, *arguments: str) -> str:
    """What debugfs says of an image's file system."""
    return run(["debugfs", *arguments, f"{image}?offset={2048 * 512}"]).stdout


def test_image_whose_journal_would_undo_it_is_refused(small_image: Path, tmp_path: Path) -> None:
    (tmp_path / "seed").write_text("message")
    debugfs(small_image, "-w", "-R", "feature needs_recovery")
    with pytest.raises(LabError, match="not unmounted cleanly"):
        disk.put_file(small_image, tmp_path / "seed", "/var/lib/b200-vm/seed.tar")
