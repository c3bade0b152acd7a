"""What systemd itself finds open in each unit that a node gets (docs/units.md)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.run.test_templates import GROUP, OPTIONS, directives, files

EXPOSURE = {
    "b200-acs.service": 1.0,
    "b200-agent.service": 3.9,
    "b200-firewall.service": 1.6,
    "b200-gate.service": 3.5,
    "b200-hook.service": 2.0,
    "b200-peers.service": 1.9,
    "b200-renew.service": 2.5,
    "b200-router.service": 1.7,
    "b200-status.service": 0.5,
    "b200-weights-server.service": 1.1,
    "b200-weights.service": 2.2,
    "haproxy.service": 2.8,
    "vllm@.service": 1.6,
}
"""Of 10, by systemd 252; docs/units.md says the most, which the agent has."""
UNITS = "etc/systemd/system"
# A package's own unit, of which a node gets a drop-in; what Debian's says opens or closes nothing.
OF_PACKAGES = {"haproxy.service": "[Service]\nExecStart=/usr/sbin/haproxy\n"}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Unit to exposure, 0 to 10: every unit that any node gets."""
    root = tmp_path_factory.mktemp("root")
    for path, text in _given(tmp_path_factory.mktemp("node")):
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    names = {path.name for path in (root / UNITS).glob("*.service")}
    return {name: _exposure(root, name.replace("@", "@0")) for name in names}


def _given(folder: Path) -> Iterator[tuple[str, str]]:
    listed = folder / "router.txt"
    listed.write_text("vllm-router==0.1.17\n")
    router = {"router": {"requirements": str(listed), "version": "0.1.17"}}
    joined: dict[str, Any] = {"group": GROUP, "replicas": 1, "tensor_parallel": 8}
    routed: dict[str, Any] = {"gateway": router}
    for number, changes in enumerate((routed, joined)):
        (folder / str(number)).mkdir()
        for path, text in files(folder / str(number), **OPTIONS, **changes).items():
            yield path.lstrip("/"), text
    for name, text in OF_PACKAGES.items():
        yield f"{UNITS}/{name}", text


def _exposure(root: Path, unit: str) -> float:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", f"--root={root}", "--no-pager", unit],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    exposure = re.search(r"exposure level for \S+: (\d+\.\d)", done.stdout)
    assert exposure is not None, done.stdout + done.stderr
    return float(exposure[1])


def test_every_unit_is_confined(found: dict[str, float]) -> None:
    # Another version of systemd weighs some things otherwise.
    assert found == pytest.approx(EXPOSURE, abs=0.4)


def test_gate_may_ask_the_kernel_how_late_its_clock_is(tmp_path: Path) -> None:
    """The lab judges no clock; what is refused would be unmeasured on every node at every boot."""
    gate = directives(files(tmp_path)[f"/{UNITS}/b200-gate.service"])
    allowed: set[str] = set()
    for line in gate["SystemCallFilter"]:
        listed = {call for word in line.lstrip("~").split() for call in _calls(word)}
        allowed = allowed - listed if line.startswith("~") else allowed | listed
    assert {"adjtimex", "clock_adjtime"} <= allowed
    assert "clock_settime" not in allowed
    # It has a filter of its own, which refuses these whatever the list above says.
    assert "ProtectClock" not in gate


def test_firewall_needs_no_writable_file_system_to_start(tmp_path: Path) -> None:
    """Nothing orders it after the root is writable, and without it the network has no rules."""
    firewall = directives(
        files(tmp_path, firewall={"allow": []})[f"/{UNITS}/b200-firewall.service"]
    )
    assert firewall["DefaultDependencies"] == ["no"]
    assert not {"local-fs.target", "sysinit.target"} & {*" ".join(firewall["After"]).split()}
    assert not {"PrivateTmp", "PrivateDevices", "StateDirectory", "LogsDirectory"} & {*firewall}


def _calls(word: str) -> set[str]:
    """The calls of a set such as "@clock", of which some are sets; a call is itself."""
    if not word.startswith("@"):
        return {word}
    shown = subprocess.run(
        ["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True
    ).stdout.splitlines()[1:]
    names = [line.strip() for line in shown if line.strip() and "#" not in line]
    return {call for name in names for call in _calls(name)}
