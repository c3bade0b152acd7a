"""The virtual machine without starting it: its arguments, its disk, what it is given."""

from __future__ import annotations

import re
import struct
import tarfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.lib import timestamp
from b200kit.serving import engine_install
from tests.lab import ssh
from tests.lab.hardware.scenario import render
from tests.lab.paths import VM_NAME, LabError, LabPaths, host_address
from tests.lab.shell import run
from tests.lab.supply import wheels
from tests.lab.supply.systems import DEFAULT, SYSTEMS
from tests.lab.vm import disk, engine_disk, machine, packages, process, recipe, vagrant
from tests.lab.vm import inventory as vm_inventory
from tests.lab.vm import vm as virtual_machine
from tests.lab.vm.seed import write_seed
from tests.messages import raises_message
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


def test_machine_is_always_emulated(command: str) -> None:
    assert "-accel tcg" in command
    assert "kvm" not in command


def test_machine_has_two_nodes_with_a_processor_each(command: str) -> None:
    assert re.findall(r"node,nodeid=(\d),cpus=(\d)", command) == [("0", "0"), ("1", "1")]
    assert "dist,src=0,dst=1,val=21" in command


def test_each_gpu_has_a_device_at_its_own_address_on_its_own_node(command: str) -> None:
    expanders = re.findall(r"pxb-pcie,id=x(\d),bus_nr=(\d+),numa_node=(\d)", command)
    message = [(f"0000:{int(bus) + 1:02x}:00.0", int(node)) for _, bus, node in expanders]
    assert message == [(gpu["pci_address"], gpu["numa_node"]) for gpu in GPUS]
    assert command.count("pci-testdev") == len(GPUS)


def test_machine_with_an_engine_has_its_disk_to_read_and_memory_for_it(tmp_path: Path) -> None:
    plain = machine.Disks(tmp_path / "d", [], tmp_path / "data")
    for disks in (plain, replace(plain, engine=tmp_path / "engine.raw")):
        words = machine.command(
            disks=disks, gpus=[], network=(), seed=tmp_path / "seed", console=tmp_path / "log"
        )
        memory = machine.ENGINE_MEMORY_MIB if disks.engine else machine.MEMORY_MIB
        assert words[words.index("-m") + 1] == str(memory)
        drives = [word for word in words if "engine.raw" in word]
        assert [word.endswith("readonly=on") for word in drives] == [True] * bool(disks.engine)


def test_engine_lies_where_the_toolkit_puts_it(tmp_path: Path) -> None:
    lab = LabPaths(tmp_path)
    (lab.mirror / "wheels").mkdir(parents=True)
    requirements = lab.mirror / "wheels" / wheels.REQUIREMENTS
    requirements.write_text("vllm==1 --hash=sha256:00\n")
    given = SimpleNamespace(engine=SimpleNamespace(image=None, requirements=str(requirements)))
    node: Any = SimpleNamespace(spec=given)
    assert engine_disk.place(lab) == engine_install.engine_dir(node)


def test_another_engine_than_the_lab_serves_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = {"engine": {"name": "stand-in"}, "hosts": [{"name": "b200-1"}]}
    monkeypatch.setattr(virtual_machine, "read_state", lambda lab: up)
    with raises_message(LabError):
        virtual_machine.prepare(LabPaths(tmp_path), print, "vllm-cpu")


def test_vagrantfile_names_the_same_gpus() -> None:
    text = (ROOT / "Vagrantfile").read_text(encoding="utf-8")
    pairs = re.findall(r"\[0x([0-9a-f]{2}), (\d)\]", text)
    message = [(f"0000:{bus}:00.0", int(node)) for bus, node in pairs]
    assert message == [(gpu["pci_address"], gpu["numa_node"]) for gpu in GPUS]


def test_machine_boots_from_its_disk_and_not_from_a_kernel_of_ours(command: str) -> None:
    assert "-kernel" not in command
    assert "bootindex=0" in command


def test_partition_starts_where_the_file_system_is_put() -> None:
    table = disk.partition_table(10_000)
    assert len(table) == disk.SECTOR
    assert table[-2:] == b"\x55\xaa"
    active, kind, first, count = struct.unpack("<B3xB3xII", table[446:462])
    assert (active, kind, first, first + count) == (0x80, 0x83, 2048, 10_000)


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


def test_each_system_has_a_machine_of_its_own() -> None:
    assert set(recipe.OWN) == set(SYSTEMS)
    assert len({recipe.stamp(system) for system in SYSTEMS.values()}) == len(SYSTEMS)


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


def test_kernel_is_the_newest_that_dpkg_has() -> None:
    names = ("linux-image-6.1.0-9-amd64", "linux-image-6.1.0-41-amd64", "linux-image-amd64")
    status = "\n".join(f"Package: {name}\n" for name in names)
    assert packages.kernel_release(status) == "6.1.0-41-amd64"


def test_image_without_a_kernel_is_refused() -> None:
    with pytest.raises(LabError, match="no kernel"):
        packages.kernel_release("Package: bash\n")


def test_machine_has_an_address_beside_the_hosts() -> None:
    addresses = {host_address(f"b200-{number}") for number in range(1, 65)}
    assert host_address(VM_NAME) not in addresses
    assert host_address(VM_NAME).startswith("10.77.0.")


def test_process_that_is_not_ours_is_never_ended(tmp_path: Path) -> None:
    """The id of a machine that is gone may be another process's by now."""
    import json
    import os

    record = {"pid": os.getpid(), "started": "1"}
    (tmp_path / "process.json").write_text(json.dumps(record))
    assert process.pid_of(tmp_path) is None
    assert process.stop(tmp_path) is False


def test_program_that_fails_at_once_is_told_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no such option"):
        process.start(["sh", "-c", "echo no such option; exit 1"], tmp_path)


SSH_CONFIG = """\
Host node
  HostName 192.168.121.10
  User root
  Port 22
  IdentityFile "/home/me/lab/id"
"""


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


def test_vagrants_ssh_config_is_read() -> None:
    message = vagrant.ssh_config_values(SSH_CONFIG)
    assert (message["HostName"], message["Port"], message["IdentityFile"]) == (
        "192.168.121.10", "22", "/home/me/lab/id",
    )  # fmt: skip


def test_hosts_of_vagrant_are_not_in_the_labs_own_ssh_config() -> None:
    entries: list[dict[str, Any]] = [
        {"name": "b200-1"},
        {"name": VM_NAME, "kind": "vm"},
        {"name": "b200-vagrant", "kind": "vagrant"},
    ]
    assert ssh.reached(entries) == ["b200-1", VM_NAME]


@pytest.fixture
def small_image(tmp_path: Path) -> Path:
    """A partitioned image of 16 MiB whose file system has one folder."""
    (tmp_path / "root/var/lib").mkdir(parents=True)
    disk.make_image(tmp_path / "disk.raw", tmp_path / "root", 16)
    return tmp_path / "disk.raw"


def debugfs(image: Path, *arguments: str) -> str:
    """What debugfs says of an image's file system."""
    return run(["debugfs", *arguments, f"{image}?offset={2048 * 512}"]).stdout


def test_file_is_written_into_an_image_with_its_folder(small_image: Path, tmp_path: Path) -> None:
    (tmp_path / "seed").write_text("message")
    disk.put_file(small_image, tmp_path / "seed", "/var/lib/b200-vm/seed.tar")
    assert debugfs(small_image, "-R", "cat /var/lib/b200-vm/seed.tar") == "message"


def test_image_whose_journal_would_undo_it_is_refused(small_image: Path, tmp_path: Path) -> None:
    (tmp_path / "seed").write_text("message")
    debugfs(small_image, "-w", "-R", "feature needs_recovery")
    with pytest.raises(LabError, match="not unmounted cleanly"):
        disk.put_file(small_image, tmp_path / "seed", "/var/lib/b200-vm/seed.tar")
