"""The sizes of the logs there are, and what the gate asks to be read at boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.node import gate
from b200kit.node.facts import logs

STORAGE = {"mount": "/srv/m", "disks": ["/dev/a"], "room_bytes": 0, "stamp": "/srv/m/x/.complete"}


def test_files_are_told_by_their_bytes_and_the_journal_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "ROOT", tmp_path)
    folder = tmp_path / "var/log"
    (folder / "journal/id").mkdir(parents=True)
    (folder / "journal/id/system.journal").write_bytes(b"x" * 8192)
    (folder / "b200kit-apt.log").write_bytes(b"x" * 10)
    (folder / "other.log").write_bytes(b"x")
    seen = logs.logs(["/var/log/b200kit-*.log", "/var/log/nvidia-dcgm/*.log"])
    assert seen["files"] == {"/var/log/b200kit-apt.log": 10}
    assert seen["journal_bytes"] >= 8192


def test_file_that_goes_meanwhile_has_no_bytes(tmp_path: Path) -> None:
    assert logs.size(tmp_path / "gone") == 0


def test_gate_reads_what_its_expectation_speaks_of() -> None:
    expectation = {
        "firewall": [],
        "storage": STORAGE,
        "time_services": ["chrony.service"],
        "logs": {"patterns": ["/var/log/*.log"], "file_bytes": 1, "journal_bytes": 1},
    }
    asked = gate.ask(expectation)
    # No port open but SSH's is a firewall, too.
    assert asked["firewall"] is True
    assert asked["storage"] == {"mount": "/srv/m", "disks": ["/dev/a"]}
    assert (asked["files"], asked["disks"]) == (["/srv/m/x/.complete"], ["/srv/m"])
    assert asked["logs"] == ["/var/log/*.log"]
    assert "chrony.service" in asked["units"]


@pytest.mark.parametrize("nothing", [{}, {"firewall": None, "storage": None}])
def test_gate_reads_nothing_that_nobody_asked_for(nothing: dict[str, None]) -> None:
    assert not {"firewall", "storage", "logs"} & set(gate.ask(nothing))
