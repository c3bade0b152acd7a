"""The settings stage: files, what they notify, what drifted, the proof; swap and boot loaders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from b200kit.node.state.drift import PENDING_REBOOT
from b200kit.operations.reboot import reasons
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError
from b200kit.stages import settings
from tests.fake.machine import Machine
from tests.fake.settings import lines
from tests.lab.firmware.lab_firmware import grub
from tests.messages import raises_message
from tests.unit.nodes import bare, look, make, planned, settled

PROOF = "read the settings back"
WORDS = "iommu=pt intel_iommu=on pci=realloc=on init_on_alloc=0 numa_balancing=disable"


def fresh(folder: Path, **changes: Any) -> tuple[Node, Machine]:
    """A node as a distribution leaves it: nothing of ours is in force."""
    node, machine = bare(folder, **changes)
    kernel, host = machine.hardware["kernel"], machine.hardware["host"]
    kernel |= {"numa_balancing": 1, "transparent_hugepages": "always", "swaps": ["/swap.img"]}
    kernel["sysctls"] = dict.fromkeys(kernel["sysctls"], "7")
    kernel["governors"] = {"powersave": 224}
    kernel["limits"] = {"memlock": 8388608, "nofile": 524288, "nproc": 1030000}
    host |= {"cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/md0", "grub_cmdline": "root=/dev/md0"}
    machine.hardware["modules"]["nouveau"] = True
    look(node)
    return node, machine


def kernel(machine: Machine) -> dict[str, Any]:
    """What the machine's kernel says."""
    part: dict[str, Any] = machine.hardware["kernel"]
    return part


def test_fresh_node_gets_everything_and_owes_one_reboot(tmp_path: Path) -> None:
    node, machine = fresh(tmp_path)
    plan = planned(node, "settings")
    assert plan[0].startswith(f"write {settings.SYSCTL}, {settings.TMPFILES}, ")
    assert plan[1:] == [
        "daemon-reload settings",
        f"sysctl {settings.SYSCTL}",
        f"tmpfiles {settings.TMPFILES}",
        "update-grub",
        "update-initramfs",
        "enable b200-acs.service",
        "switch swap off",
        PROOF,
    ]
    make(node, "settings")
    assert planned(node, "settings") == []
    assert "boot-time configuration changed" in reasons(node)
    assert kernel(machine)["sysctls"]["vm.swappiness"] == "1"
    assert kernel(machine)["governors"] == {"performance": 224}
    assert kernel(machine)["limits"] == {"memlock": -1, "nofile": 1048576, "nproc": -1}
    assert kernel(machine)["swaps"] == []
    machine.execute("systemd-run --quiet --on-active=1 systemctl reboot")
    look(node)
    assert machine.hardware["host"]["cmdline"].endswith(WORDS)
    assert planned(node, "settings") == []
    assert "boot-time configuration changed" not in reasons(node)


def test_node_that_boots_right_already_owes_no_reboot(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    make(node, "settings")
    assert PENDING_REBOOT not in machine.files
    assert machine.ran("update-grub")


def test_bridge_that_redirects_again_has_its_unit_run_again(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.hardware["pci"]["gpus"][0]["bridges"][0]["acs"] = True
    look(node)
    assert planned(node, "settings") == ["restart b200-acs.service", PROOF]


def test_node_without_acs_has_no_unit_for_it(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    for gpu in machine.hardware["pci"]["gpus"]:
        for bridge in gpu["bridges"]:
            bridge["acs"] = None
    look(node)
    assert planned(node, "settings")[0] == "remove /etc/systemd/system/b200-acs.service"
    make(node, "settings")
    assert planned(node, "settings") == []


def test_setting_that_would_not_take_is_named_in_one_line(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    kernel(machine)["sysctls"]["vm.swappiness"] = "60"
    machine.refuses = ["vm.swappiness"]
    look(node)
    message = r"set, and did not take: swappiness is 60, not 1 \(vm\.swappiness\)"
    with pytest.raises(RemoteError, match=message):
        make(node, "settings")


def test_sysctl_that_the_kernel_refuses_is_reported_and_stays_pending(tmp_path: Path) -> None:
    node, machine = fresh(tmp_path)
    line = 'sysctl: setting key "vm.swappiness": Invalid argument'
    machine.answers = {"^sysctl": (False, line)}
    with pytest.raises(RemoteError, match="Invalid argument"):
        make(node, "settings")
    machine.answers = {}
    look(node)
    assert f"sysctl {settings.SYSCTL}" in planned(node, "settings")


def test_killed_before_update_grub_the_next_run_pays_grub_and_reboot(tmp_path: Path) -> None:
    node, machine = fresh(tmp_path)
    machine.answers = {"update-grub": (False, "cat: write error: No space left on device")}
    with raises_message(RemoteError):
        make(node, "settings")
    machine.answers = {}
    look(node)
    assert "update-grub" in planned(node, "settings")
    make(node, "settings")
    assert "boot-time configuration changed" in reasons(node)


def test_killed_and_rebooted_before_update_grub_still_ends_right(tmp_path: Path) -> None:
    node, machine = fresh(tmp_path)
    machine.answers = {"update-grub": (False, "killed")}
    with pytest.raises(RemoteError):
        make(node, "settings")
    machine.answers = {}
    machine.execute("systemd-run --quiet --on-active=1 systemctl reboot")
    look(node)
    make(node, "settings")
    assert "boot-time configuration changed" in reasons(node)


def test_grub_configuration_that_lost_our_words_is_made_again(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.hardware["host"] |= {"cmdline": "root=/dev/md0", "grub_cmdline": "root=/dev/md0"}
    look(node)
    assert planned(node, "settings") == ["require a reboot", "update-grub", PROOF]
    make(node, "settings")
    assert "boot-time configuration changed" in reasons(node)
    assert planned(node, "settings") == []


def test_node_that_boots_another_way_is_told_once_and_never_rebooted(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.hardware["host"]["cmdline"] = "root=/dev/nfs"
    look(node)
    message = (
        "iommu is not in force: the kernel command line does not have .*the node boots another way"
    )
    with pytest.raises(StageFailed, match=message):
        planned(node, "settings")
    assert reasons(node) == []


def test_word_of_another_file_is_named(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.hardware["host"]["cmdline"] += " iommu=off"
    look(node)
    with pytest.raises(StageFailed, match=r"also has iommu=off.*/etc/default/grub"):
        planned(node, "settings")


def test_node_without_grub_and_a_wrong_command_line_is_told_what_to_do(tmp_path: Path) -> None:
    node, machine = fresh(tmp_path)
    machine.hardware["host"]["grub_cmdline"] = None
    look(node)
    message = (
        r"no update-grub: give the words to its boot loader and reboot it, .*"
        r'settings = \{"iommu": None, "pci_realloc": None, "init_on_alloc": None\}'
    )
    with pytest.raises(StageFailed, match=message):
        planned(node, "settings")


def test_node_without_grub_and_the_right_words_needs_no_drop_in(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.hardware["host"]["grub_cmdline"] = None
    look(node)
    make(node, "settings")
    assert settings.GRUB not in machine.files
    assert planned(node, "settings") == []


def test_swap_comes_back_when_it_is_asked_for(tmp_path: Path) -> None:
    node, machine = bare(tmp_path, settings={"swap": "on"})
    machine.units["swap.target"] = {"enabled": "masked"}
    look(node)
    assert "switch swap on" in planned(node, "settings")
    make(node, "settings")
    assert machine.units["swap.target"]["enabled"] == "static"
    assert kernel(machine)["swaps"]


def test_what_is_left_to_somebody_else_is_not_touched(tmp_path: Path) -> None:
    node, machine = fresh(tmp_path, settings={"swap": None, "acs": None, "nouveau": None})
    make(node, "settings")
    assert kernel(machine)["swaps"] == ["/swap.img"]
    assert machine.units.get("swap.target") is None
    assert "/etc/systemd/system/b200-acs.service" not in machine.files
    assert "nouveau" not in " ".join(lines(machine, settings.MODPROBE))


def test_nouveau_that_is_loaded_owes_the_reboot(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.hardware["modules"]["nouveau"] = True
    look(node)
    make(node, "settings")
    assert "boot-time configuration changed" in reasons(node)


def test_no_file_of_an_image_takes_the_command_line_back(tmp_path: Path) -> None:
    """Ubuntu's cloud images set the line anew in grub.d, sites in later files."""
    node, _ = bare(tmp_path)
    [ours] = [file for file in settings.desired(node, ()).files if file.path == settings.GRUB]
    folder = tmp_path / "etc/default/grub.d"
    folder.mkdir(parents=True)
    for name in ("50-cloudimg-settings.cfg", "99-site.cfg"):
        (folder / name).write_text('GRUB_CMDLINE_LINUX_DEFAULT="console=tty1 console=ttyS0"\n')
    (folder / Path(ours.path).name).write_bytes(ours.content)
    assert grub.words(tmp_path)[2:] == WORDS.split()
