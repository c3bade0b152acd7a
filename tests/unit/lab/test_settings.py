"""Settings in the lab: every one has its place, and a node on which all are off is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.catalog import load
from b200kit.node.checks.judge import judge
from b200kit.node.facts import kernel, pci
from b200kit.node.facts import settings as node_settings
from tests.lab.firmware.lab_firmware import (
    grub,
    initramfs,
    modules,
    procfs,
    settings,
    swap,
    tmpfiles,
    tree,
)
from tests.lab.firmware.lab_firmware import pci as firmware
from tests.lab.hardware import scenario
from tests.unit import states

TABLE = load.load().settings
OFF = scenario.render("settings-off", 2)
# Not off by a scenario: a container cannot raise limits; the others are only there to be asked for.
NOT_SHOWN = {
    *("memlock", "nofile", "nproc"),
    *("nouveau", "nokaslr", "disable_hmm", "profiling_admin_only", "cstates", "power_limit_w"),
}


def test_every_sysctl_of_the_data_is_a_file_of_the_nodes_own() -> None:
    keys = {setting.means["sysctl"] for setting in TABLE.values() if "sysctl" in setting.means}
    assert {key.replace(".", "/") for key in keys} <= set(procfs.SYSCTLS)


@pytest.fixture
def off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> states.State:
    """The healthy node with everything that the scenario says of settings."""
    for module in (kernel, node_settings):
        monkeypatch.setattr(module, "PROC", tmp_path / "proc")
        monkeypatch.setattr(module, "SYS", tmp_path / "sys")
    monkeypatch.setattr(pci, "SYS", tmp_path / "sys")
    tree.write(tmp_path / "proc/sys", settings.sysctls(OFF))
    tree.write(tmp_path / "proc", {"swaps": swap.at_boot(OFF, tmp_path / "swap.target")})
    tree.write(tmp_path / "sys/devices/system/cpu/cpufreq", settings.cpufreq(OFF))
    tree.write(tmp_path / "sys/kernel/mm/transparent_hugepage", settings.huge_pages(OFF))
    tree.write(tmp_path / "sys/bus/pci", firmware.tree(OFF, None))
    state, sysctls = states.healthy(), states.healthy()["kernel"]["sysctls"]
    read = kernel.kernel({"sysctls": list(sysctls)})
    kept = {key: state["kernel"][key] for key in ("driver_options", "limits", "raises_limits")}
    state["kernel"] = {**read, **kept}
    state["host"]["cmdline"] = grub.cmdline(OFF, tmp_path)
    state["pci"]["gpus"] = pci.gpus()
    return state


def test_every_setting_the_lab_shows_is_off_once_and_found(off: states.State) -> None:
    verdict = judge(states.expectation(), off)
    found = {f.part for f in verdict.findings if f.check == "host.settings" and f.blocks}
    if any(f.check == "pcie.acs" and f.blocks for f in verdict.findings):
        found.add("acs")
    assert found == set(TABLE) - NOT_SHOWN


def test_update_grub_counts_from_the_next_boot_on(tmp_path: Path) -> None:
    tree.write(tmp_path, {"etc/default/grub.d/x.cfg": 'GRUB_CMDLINE_LINUX="a=1 b"'})
    assert "a=1" not in grub.cmdline(OFF, tmp_path)
    tree.write(tmp_path, {grub.CONFIG: grub.config(OFF, tmp_path)})
    assert grub.cmdline(OFF, tmp_path).endswith("quiet a=1 b")
    assert grub.cmdline(OFF, tmp_path).startswith("BOOT_IMAGE=/boot/vmlinuz root=")


def test_drop_in_that_is_no_shell_fails_as_grub_mkconfig_does(tmp_path: Path) -> None:
    tree.write(tmp_path, {"etc/default/grub.d/x.cfg": 'GRUB_CMDLINE_LINUX="open'})
    with pytest.raises(OSError, match=r"x\.cfg"):
        grub.words(tmp_path)


def test_masked_swap_target_leaves_no_swap_after_a_boot(tmp_path: Path) -> None:
    mask = tmp_path / "swap.target"
    assert "/dev/nvme0n1p3" in swap.at_boot(OFF, mask)
    mask.symlink_to("/dev/null")
    assert swap.at_boot(OFF, mask) == swap.HEAD


def test_initramfs_holds_what_modprobe_d_says(tmp_path: Path) -> None:
    tree.write(tmp_path, {"etc/modprobe.d/x.conf": "blacklist nouveau"})
    image = initramfs.image(tmp_path)
    assert image.startswith(b"blacklist nouveau\n")
    assert len(image) > initramfs.SIZE // 2


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("madvise", "always [madvise] never"),
        ("", "[always] madvise never"),
        ("nonsense", "[always] madvise never"),
    ],
)
def test_list_of_words_shows_the_chosen_one_as_sys_does(
    tmp_path: Path, said: str, shown: str
) -> None:
    path = tmp_path / "enabled"
    path.write_text(said)
    tmpfiles.complete({path: "[always] madvise never\n"})
    assert path.read_text() == f"{shown}\n"


def test_governor_keeps_its_word(tmp_path: Path) -> None:
    path = tmp_path / "scaling_governor"
    path.write_text("performance")
    tmpfiles.complete({path: "powersave\n"})
    assert path.read_text() == "performance\n"


@pytest.mark.parametrize(("line", "flag"), [("uvm_disable_hmm=1", "Y"), ("other=1", "N")])
def test_modules_are_loaded_with_the_parameters_of_modprobe_d(
    tmp_path: Path, line: str, flag: str
) -> None:
    tree.write(tmp_path, {"etc/modprobe.d/x.conf": f"options nvidia_uvm {line}"})
    files = modules.parameters({"nvidia_uvm": "580.126.20"}, tmp_path)
    assert files == {"nvidia_uvm/parameters/uvm_disable_hmm": flag}
    assert modules.parameters({"mlx5_core": None}, tmp_path) == {}


def test_driver_shows_an_option_under_its_own_name() -> None:
    given = procfs.params({"NVreg_RestrictProfilingToAdminUsers": "0"})
    assert given["RmProfilingAdminOnly"] == "0"
    assert "RestrictProfilingToAdminUsers" not in given
