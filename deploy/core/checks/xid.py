"""Xid messages since boot: what each asks for, and which GPU is to blame.

When one GPU's NVLink goes (149), its peers log 145 and the processes 45: those are downstream and
are not told beside it (marin-community/marin#9086).
"""

from __future__ import annotations

from collections.abc import Iterator

from deploy.core.checks.tools import failed, passed, rule, unread
from deploy.core.expectation import Expectation, Expected
from deploy.core.judge import check
from deploy.core.state import GpuView, StateView, Unmeasured, View
from deploy.core.verdict import Action, Finding

LINK_LOST = 149
DOWNSTREAM = (45, 145)
Group = tuple[str, int]


def grouped(entries: list[View]) -> dict[Group, list[View]]:
    """Entries by PCI address and code, in order of first sight."""
    groups: dict[Group, list[View]] = {}
    for entry in entries:
        address, code = entry.text("pci_address"), entry.number("code")
        if isinstance(address, str) and isinstance(code, int):
            groups.setdefault((address.lower(), code), []).append(entry)
    return groups


def nonfatal(entries: list[View]) -> bool:
    """Whether every message of a group calls itself nonfatal."""
    return all("nonfatal" in str(entry.at("text").raw()).lower() for entry in entries)


@check("xid.log")
def log(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel log holds no Xid that asks for more than a restart of the application."""
    table, entries = expect.hardware("xid.actions", dict), state.items("xids")
    if isinstance(entries, Unmeasured):
        yield unread("the kernel log", entries)
        return
    groups = grouped(entries)
    if sum(map(len, groups.values())) != len(entries):
        yield unread("some Xid entries", Unmeasured("without a PCI address or a code"))
    lost = {address for address, code in groups if code == LINK_LOST}
    found: list[Finding] = []
    for (address, code), seen in groups.items():
        if lost and code in DOWNSTREAM and address not in lost:
            continue
        found += xid(expect, table, state.gpu_at(address), (address, code), seen)
    yield from found
    if not any(finding.blocks for finding in found):
        yield passed(f"no Xid that matters among {len(entries)} in this boot's kernel log")


def xid(
    expect: Expectation, table: Expected, gpu: GpuView | None, group: Group, seen: list[View]
) -> Iterator[Finding]:
    """The finding of one code on one GPU; a code nobody knows is a fault to look at."""
    address, code = group
    entry = expect.at("hardware", "expect", "xid.actions", "value", str(code))
    action = Action.parse(entry.text("action") or Action.MONITOR.word)
    meaning = entry.text("meaning") or "unknown to this tool"
    if action is Action.NONE or (nonfatal(seen) and entry.flag("nonfatal_ok")):
        return
    subject = gpu.subject if gpu else f"the GPU at {address}"
    summary = f"{subject}: Xid {code} ({meaning}), {len(seen)} times since boot"
    read = seen[-1].text("text") or f"Xid {code}"
    expected = rule("none", table.source)
    yield failed(summary, read, expected, action, gpu, part="" if gpu else f"PCI {address}")
