"""Nodes from saved disks are live nodes, and labs side by side do not know of each other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.conftest import Live
from tests.e2e.driving import ROOT, Outcome, deploy, on
from tests.lab import snapshots
from tests.lab.live import LABEL
from tests.lab.own_network import NAMESPACES, way_out
from tests.lab.paths import ID_VARIABLE, MAX_LABS, LabPaths, lab_id, lab_paths
from tests.lab.state import claims

pytestmark = pytest.mark.long

NAMES = ("b200-1", "b200-2")
OTHER = (lab_id() + MAX_LABS // 2) % MAX_LABS


@pytest.fixture(scope="module")
def nodes(live: Live) -> dict[str, Any]:
    return live(len(NAMES))


@pytest.fixture(scope="module")
def again(nodes: dict[str, Any]) -> Outcome:
    return deploy()


@pytest.fixture(scope="module")
def other(nodes: dict[str, Any]) -> Iterator[LabPaths]:
    """Another lab with one bare node of the same name and address."""
    program = [sys.executable, "-m", "tests.lab.cli"]
    own = os.environ | {ID_VARIABLE: str(OTHER)}
    try:
        subprocess.run([*program, "up", "--engine", "stand-in"], cwd=ROOT, env=own, check=True)
        yield LabPaths(lab_paths().root, OTHER)
    finally:
        subprocess.run([*program, "down"], cwd=ROOT, env=own, check=True)


def test_nodes_of_saved_disks_are_different_nodes_that_passed_their_gate_in_this_boot(
    nodes: dict[str, Any],
) -> None:
    assert len({on(name, "cat /etc/machine-id") for name in NAMES}) == len(NAMES)
    for name in NAMES:
        assert on(name, "hostname") == name
        assert "gate: fit" in on(name, "journalctl -b -o cat --no-pager -u b200-gate.service")


def test_next_run_measures_the_new_server_processes_and_changes_nothing_else(
    again: Outcome,
) -> None:
    assert again.code == 0, again.said[-3000:]
    for name in NAMES:
        stages = again.host(name)["stages"]
        changed = {stage["name"] for stage in stages if stage["changes"]}
        # The disk may have been saved by another lab, whose engine's lock lies in a folder of its.
        assert {"smoke"} <= changed <= {"smoke", "served"}


def test_run_after_that_changes_nothing(again: Outcome) -> None:
    third = deploy()
    assert [third.outcome(name) for name in NAMES] == ["live"] * len(NAMES)
    assert [third.host(name)["changes"] for name in NAMES] == [0] * len(NAMES)


def test_what_a_node_writes_never_gets_into_the_saved_disk(nodes: dict[str, Any]) -> None:
    saved = snapshots.layer(lab_paths(), LABEL, NAMES[0], "healthy")
    on(NAMES[0], "echo written > /etc/written && sync")
    assert (lab_paths().host(NAMES[0]) / "upper/etc/written").exists()
    assert not (saved / "etc/written").exists()


def test_labs_side_by_side_reach_their_own_nodes(other: LabPaths) -> None:
    assert {lab_paths(), other} <= set(claims())
    assert on(NAMES[0], "test -e /usr/local/lib/b200kit && echo live") == "live"
    inside = ["ip", "netns", "exec", f"b200-lab-{OTHER}"] if OTHER else []
    asked = [*inside, "ssh", "-F", str(other.ssh_config), NAMES[0]]
    bare = subprocess.run(
        [*asked, "test -e /usr/local/lib/b200kit || echo bare"],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    assert bare.stdout.strip() == "bare"


def test_taking_one_lab_down_touches_no_other(other: LabPaths) -> None:
    before = on(NAMES[0], "cat /proc/sys/kernel/random/boot_id")
    program = [sys.executable, "-m", "tests.lab.cli", "down"]
    own = os.environ | {ID_VARIABLE: str(OTHER)}
    subprocess.run(program, cwd=ROOT, env=own, check=True)
    assert not other.own.exists()
    assert [host["state"] for host in lab.status()["hosts"]] == ["running"] * len(NAMES)
    assert on(NAMES[0], "cat /proc/sys/kernel/random/boot_id") == before
    assert on(NAMES[0], "systemctl is-active haproxy.service") == "active"


_JOIN_AND_LEAVE = """
from tests.lab import own_network
own_network.join()
with own_network.outside():
    pass
own_network.leave()
"""


def test_network_of_a_lab_is_made_whatever_a_killed_run_left(other: LabPaths) -> None:
    namespace, outside = NAMESPACES / f"b200-lab-{OTHER}", way_out(OTHER)
    namespace.touch()
    outside.touch()
    subprocess.run(["mount", "--bind", "/proc/self/ns/net", outside], check=True)
    own = os.environ | {ID_VARIABLE: str(OTHER)}
    program = [sys.executable, "-c", _JOIN_AND_LEAVE]
    together = [subprocess.Popen(program, cwd=ROOT, env=own) for _ in range(4)]
    assert [process.wait() for process in together] == [0, 0, 0, 0]
    assert not namespace.exists()
    assert not outside.exists()
