"""Xid messages of the kernel log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import xid

BUS = "NVRM: Xid (PCI:0000:8F:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
SWITCH = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
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
    found = xid.parse(xid.XID, line)
    assert found is not None
    assert entry.items() <= found.items()


@pytest.mark.parametrize("line", ["", "NVRM: loading NVIDIA UNIX Open Kernel Module", "Xid: 79"])
def test_other_message_is_none(line: str) -> None:
    assert xid.parse(xid.XID, line) is None


def test_switch_message_is_told_from_a_gpus() -> None:
    found = xid.parse(xid.SXID, f"1763712345.5 n1 kernel: {SWITCH}")
    assert found == {
        "time_s": 1763712345.5,
        "pci_address": "0000:05:00.0",
        "code": 20034,
        "text": "Fatal, Link 30 LTSSM Fault Up",
    }
    assert xid.parse(xid.XID, SWITCH) is None
    assert xid.parse(xid.SXID, BUS) is None


@pytest.mark.parametrize("detail", ["Severity 0 Engine instance 46", "Data {0x00000001}"])
def test_detail_of_a_switch_message_is_no_message_of_its_own(detail: str) -> None:
    line = f"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, {detail}"
    assert xid.parse(xid.SXID, line) is None


def test_both_kinds_come_from_one_reading_of_the_log() -> None:
    readings: list[int] = []

    def log() -> list[str]:
        readings.append(1)
        return [BUS, SWITCH]

    shared = xid.once(log)
    codes = [[x["code"] for x in xid.found(kind, shared)] for kind in (xid.XID, xid.SXID)]
    assert codes == [[79], [20034]]
    assert len(readings) == 1


def test_log_without_an_xid_is_an_empty_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_text("Linux version 6.8\n")
    monkeypatch.setenv(xid.OVERRIDE, str(tmp_path / "log"))
    assert xid.found(xid.XID, xid.once(xid.kernel_log)) == []


def test_log_that_cannot_be_read_is_unmeasured_and_not_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(xid.OVERRIDE, "/no/such/log")
    log = xid.once(xid.kernel_log)
    assert "unmeasured" in xid.found(xid.XID, log)
    assert "unmeasured" in xid.found(xid.SXID, log)


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
    assert [entry["code"] for entry in xid.found(xid.XID, xid.kernel_log)] == [79]


def test_messages_before_a_reset_are_marked_and_later_ones_are_not() -> None:
    lines = [LINK, f"1763712345.1 n1 {xid.RESET_DONE}", LINK]
    found = xid.found(xid.XID, lambda: lines)
    assert [entry.get("before_reset") for entry in found] == [True, None]
