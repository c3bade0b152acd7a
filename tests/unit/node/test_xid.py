"""Xid messages of the kernel log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy.node import xid

BUS = "NVRM: Xid (PCI:0000:8F:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
LINK = "NVRM: Xid (PCI:0000:04:00): 149, NETIR_LINK_DOWN Fatal XC0 i0 Link 14"


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        (BUS, {"pci_address": "0000:8f:00.0", "code": 79}),
        (f"1763712345.123456 n1 kernel: {LINK}", {"time_s": 1763712345.123456, "code": 149}),
        ("NVRM: Xid (PCI:0000:8f:00.0): 13, Graphics", {"pci_address": "0000:8f:00.0"}),
        ("NVRM: Xid (PCI:0000:8f:00): 154", {"code": 154, "text": ""}),
    ],
)
def test_message_is_read(line: str, entry: dict[str, Any]) -> None:
    found = xid.parse(line)
    assert found is not None
    assert entry.items() <= found.items()


@pytest.mark.parametrize("line", ["", "NVRM: loading NVIDIA UNIX Open Kernel Module", "Xid: 79"])
def test_other_message_is_none(line: str) -> None:
    assert xid.parse(line) is None


def test_log_without_an_xid_is_an_empty_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_text("Linux version 6.8\n")
    monkeypatch.setenv(xid.OVERRIDE, str(tmp_path / "log"))
    assert xid.xids() == []


def test_log_that_cannot_be_read_is_unmeasured_and_not_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(xid.OVERRIDE, "/no/such/log")
    assert "unmeasured" in xid.xids()


def test_kernel_records_are_read_without_their_key_value_lines() -> None:
    content = f"5,0,0,-;Linux version 6.8\n SUBSYSTEM=x\n4,1,9,-;{BUS}\n"
    assert xid.messages(content) == ["Linux version 6.8", BUS]


def test_kernel_log_that_lost_its_start_cannot_prove_that_there_was_no_xid() -> None:
    with pytest.raises(OSError, match="first 812 messages"):
        xid.messages("6,812,5,-;late message\n")


def test_journal_without_a_kernel_line_is_not_taken_for_a_quiet_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(xid.OVERRIDE, raising=False)
    monkeypatch.setattr(xid, "command", lambda *_: "\n")
    monkeypatch.setattr(xid, "kernel_buffer", lambda: [f"x;{BUS}"])
    assert [entry["code"] for entry in xid.xids()] == [79]
