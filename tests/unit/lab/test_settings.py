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
    procfs,
    settings,
    swap,
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


def test_drop_in_that_is_no_shell_fails_as_grub_mkconfig_does(tmp_path: Path) -> None:
    tree.write(tmp_path, {"etc/default/grub.d/x.cfg": 'GRUB_CMDLINE_LINUX="open'})
    with pytest.raises(OSError, match=r"x\.cfg"):
        grub.words(tmp_path)


def test_driver_shows_an_option_under_its_own_name() -> None:
    given = procfs.params({"NVreg_RestrictProfilingToAdminUsers": "0"})
    assert given["RmProfilingAdminOnly"] == "0"
    assert "RestrictProfilingToAdminUsers" not in given
