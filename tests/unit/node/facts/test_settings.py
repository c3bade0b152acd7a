"""Settings in force, from a file tree made for the test; and ACS switched off in one."""

from __future__ import annotations

import errno
import os
import shutil
import struct
from pathlib import Path

import pytest

from b200kit.node.facts import kernel, pci, settings
from b200kit.node.host import acs_off
from tests.lab.firmware.lab_firmware import grub
from tests.lab.firmware.lab_firmware import pci as firmware
from tests.lab.firmware.lab_firmware import tree as trees
from tests.lab.hardware import scenario
from tests.messages import assert_message


def put(path: Path, content: str) -> None:
    """One small file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content + "\n")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /proc and /sys."""
    for module in (kernel, settings):
        monkeypatch.setattr(module, "PROC", tmp_path / "proc")
        monkeypatch.setattr(module, "SYS", tmp_path / "sys")
    return tmp_path


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """What systemctl says."""
    monkeypatch.setattr(settings, "command", lambda argv: text)


def test_asked_sysctls_are_read_and_no_others(root: Path) -> None:
    put(root / "proc/sys/vm/swappiness", "60")
    put(root / "proc/sys/net/ipv4/ip_local_port_range", "32768\t60999")
    asked = ["vm.swappiness", "net.ipv4.ip_local_port_range", "vm.nothing"]
    found = kernel.kernel({"sysctls": asked})
    assert found["sysctls"] == dict(zip(asked, ["60", "32768 60999", None], strict=True))
    assert kernel.kernel()["sysctls"] == {}


def test_parameters_of_modules_are_read_and_null_without_the_module(root: Path) -> None:
    put(root / "sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "Y")
    asked = ["nvidia_uvm.uvm_disable_hmm", "nouveau.modeset"]
    found = kernel.kernel({"module_parameters": asked})["module_parameters"]
    assert found == dict(zip(asked, ["Y", None], strict=True))


def test_limits_are_the_managers_and_infinity_is_minus_one(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(
        monkeypatch,
        "DefaultLimitNPROC=infinity\nDefaultLimitNOFILE=1048576\nDefaultLimitMEMLOCK=8388608\n",
    )
    assert settings.limits() == {"memlock": 8388608, "nofile": 1048576, "nproc": -1}


def test_manager_that_says_less_is_unmeasured(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "DefaultLimitNOFILE=1048576\n")
    assert "unmeasured" in kernel.kernel()["limits"]


@pytest.mark.parametrize(("mask", "may"), [("000001ffffffffff", True), ("000001fffeffffff", False)])
def test_limits_may_be_raised_with_the_capability(root: Path, mask: str, may: bool) -> None:
    put(root / "proc/self/status", f"Name:\tpython3\nCapEff:\t{mask}")
    assert kernel.kernel()["raises_limits"] is may


def test_swaps_are_named(root: Path) -> None:
    head = "Filename\t\tType\tSize\tUsed\tPriority"
    put(root / "proc/swaps", f"{head}\n/dev/dm-1  partition\t8\t0\t-2\n/swap.img file\t4\t0\t-3")
    assert kernel.kernel()["swaps"] == ["/dev/dm-1", "/swap.img"]
    put(root / "proc/swaps", head)
    assert kernel.kernel()["swaps"] == []


CONFIG = """
set default="0"
menuentry 'Debian GNU/Linux' --class debian {
\tlinux\t/boot/vmlinuz-6.1.0-28-amd64 root=UUID=1-2 ro quiet iommu=pt
\tinitrd\t/boot/initrd.img-6.1.0-28-amd64
}
\tlinux\t/boot/vmlinuz-6.1.0-28-amd64 root=UUID=1-2 ro single
"""


@pytest.mark.parametrize(
    ("text", "line"), [(CONFIG, "root=UUID=1-2 ro quiet iommu=pt"), ("", ""), (None, "")]
)
def test_grubs_first_entry_is_what_the_next_boot_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, line: str
) -> None:
    monkeypatch.setattr(settings, "GRUB_CONFIG", tmp_path / "grub.cfg")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/sbin/{name}")
    if text is not None:
        (tmp_path / "grub.cfg").write_text(text)
    assert settings.grub_cmdline() == line


def test_node_without_update_grub_has_no_grub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert settings.grub_cmdline() is None


def test_the_labs_grub_writes_what_the_node_program_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = scenario.render("healthy", 2)
    put(tmp_path / "etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"')
    config = grub.config(healthy, tmp_path)
    put(tmp_path / grub.CONFIG, config)
    monkeypatch.setattr(settings, "GRUB_CONFIG", tmp_path / grub.CONFIG)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert (settings.grub_cmdline() or "").split() == [
        *healthy["kernel_cmdline"].split()[1:],
        "quiet",
    ]


@pytest.fixture
def redirecting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bus of a node whose bridges all redirect."""
    monkeypatch.setattr(pci, "SYS", tmp_path)
    trees.write(tmp_path / "bus/pci", firmware.tree(scenario.render("acs-on", 2), None))
    return tmp_path


def on(gpus: list[dict[str, object]]) -> set[object]:
    """What the bridges above GPUs say of ACS."""
    return {b["acs"] for gpu in gpus for b in gpu["bridges"]}  # type: ignore[attr-defined]


def test_acs_is_switched_off_on_every_bridge_and_then_there_is_nothing_to_do(
    redirecting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert on(pci.gpus()) == {True}
    assert acs_off.main([]) == 0
    assert on(pci.gpus()) == {False}
    assert "0000:15:01.0: off" in capsys.readouterr().out
    assert acs_off.main([]) == 0
    assert_message(capsys.readouterr().out)


def test_bridges_above_nics_alone_are_switched_off_too(redirecting: Path) -> None:
    names = {folder.name for folder in acs_off.bridges()}
    above_gpus = {b["address"] for gpu in pci.gpus() for b in gpu["bridges"]}
    assert "0000:26:01.0" in names - above_gpus


def test_other_words_of_the_capability_stay(redirecting: Path) -> None:
    config = acs_off.bridges()[0] / "config"
    descriptor = os.open(config, os.O_RDONLY)
    at = pci.capability(descriptor)
    os.close(descriptor)
    assert at is not None
    before = config.read_bytes()
    assert acs_off.switch_off(config)
    after = config.read_bytes()
    changed = {n for n, pair in enumerate(zip(before, after, strict=True)) if len(set(pair)) > 1}
    assert changed <= {at + pci.CONTROL, at + pci.CONTROL + 1}
    assert struct.unpack_from("<H", after, at + pci.CONTROL) == (0,)


def test_kernel_that_is_locked_down_is_told_and_the_others_are_tried(
    redirecting: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(descriptor: int, data: bytes, at: int) -> int:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "pwrite", refuse)
    assert acs_off.main([]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(acs_off.bridges())
    assert_message(lines[0])


def test_bridge_that_keeps_its_value_is_a_failure(
    redirecting: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: len(data))
    assert acs_off.main([]) == 1
    assert "kept its value" in capsys.readouterr().err
