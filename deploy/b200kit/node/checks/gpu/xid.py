"""Xid messages since boot: what each asks for, and which GPU is to blame.

When one GPU's NVLink goes (149), its peers log 145 and the processes 45: those are downstream and
are reported as a note (marin-community/marin#9086). A fatal 145 without any 149 stands for itself.
What a reset is asked for is over once the GPUs were reset, and is a note then (NVSentinel#669).

The text of an NVLink 5 Xid (144 to 150):

    NETIR_LINK_EVT  Fatal   XC0 i0 Link 00 (0x026001c6 0x00000000 ...)      driver 575 and later
    NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]                      before

Unit, event, severity and link are spelled out; the reason of a link event is in bits 20-25 of the
first word (NVIDIA's Xid catalog, sheet "XID 144-150 Decode", as leptonai/gpud generates it).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from b200kit.node.checks.findings import failed, noted, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import OnNode
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.node.state.view import GpuView, StateView, Unread, View

MESSAGE = re.compile(
    r"\b(?P<name>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)\s+(?P<severity>Fatal|Non-?fatal)\b"
    r"(?:\s+XC\s*[0-9]+\s+i\s*[0-9]+\s+Link\s+(?P<link>[0-9]+)(?:\s*[(\[]0x(?P<info>[0-9A-Fa-f]+))?)?"
)
LINK_EVENTS = ("NETIR_LINK_EVT", "NETIR_LINK_DOWN")
OTHER_END = {21, 32, 33, 34, 35, 36, 37}
"""Reasons of a link event that send one to the device at the other end of the link."""
LINK_LOST = 149
DOWNSTREAM = (45, 145)
MOST_TEXT = 160
"""Characters of a message that a summary quotes; the finding has all of it."""


@dataclass(frozen=True)
class NvlinkMessage:
    """One message: the unit of the GPU's NVLink logic, what it saw, and on which link."""

    unit: str
    event: str
    fatal: bool
    link: int | None = None
    reason: int | None = None

    @property
    def name(self) -> str:
        """Unit and event as the driver writes them: "NETIR_LINK_EVT"."""
        return f"{self.unit}_{self.event}" if self.event else self.unit

    @property
    def from_other_end(self) -> bool:
        """Whether the other end of the link is reported as the source, on HGX the NVLink switch."""
        return self.name in LINK_EVENTS and self.reason in OTHER_END

    def __str__(self) -> str:
        """For people: "NETIR_LINK_EVT fatal on NVLink 14"."""
        where = "" if self.link is None else f" on NVLink {self.link}"
        return f"{self.name} {'fatal' if self.fatal else 'nonfatal'}{where}"


def messages_in(text: str) -> list[NvlinkMessage]:
    """The messages in a kernel log text, [] when it is of another form.

    It also has the name of a process, which may look like one.
    """
    return [_message(match) for match in MESSAGE.finditer(text)]


def _message(match: re.Match[str]) -> NvlinkMessage:
    unit, _, event = match["name"].partition("_")
    info = match["info"]
    return NvlinkMessage(
        unit,
        event,
        fatal=match["severity"] == "Fatal",
        link=None if match["link"] is None else int(match["link"]),
        reason=None if info is None else int(info, 16) >> 20 & 0x3F,
    )


@dataclass(frozen=True)
class XidGroup:
    """Every message of one code about one GPU."""

    address: str
    code: int
    texts: tuple[str, ...]
    gpu: GpuView | None

    @property
    def subject(self) -> str:
        """The GPU by index, or by address where NVML does not know it."""
        return self.gpu.subject if self.gpu else f"the GPU at {self.address}"

    @property
    def fatal(self) -> bool:
        """Whether a message does not call itself nonfatal, whatever its process is called."""
        return any(
            any(m.fatal for m in found) or not found for found in map(messages_in, self.texts)
        )

    @property
    def details(self) -> str:
        """What NVLink messages say: events and links, fatal ones alone where there are some."""
        messages = [message for text in self.texts for message in messages_in(text)]
        messages = [m for m in messages if m.fatal] or messages
        words = ", ".join(dict.fromkeys(map(str, messages)))
        if any(message.from_other_end for message in messages):
            words += "; the other end of the link is reported as the source"
        return words


def grouped(state: StateView, entries: list[View]) -> list[XidGroup]:
    """Messages by PCI address and code, in order of first sight."""
    texts: dict[tuple[str, int], list[str]] = {}
    for entry in entries:
        address, code = entry.known(str, "pci_address"), entry.known(int, "code")
        if address is not None and code is not None:
            text = entry.known(str, "text") or ""
            texts.setdefault((address.lower(), code), []).append(text)
    return [XidGroup(a, code, tuple(t), state.gpu_at(a)) for (a, code), t in texts.items()]


@check(
    "xid.log",
    # On eight B300 all at once, and gone after the reboot (NVIDIA/open-gpu-kernel-modules#1355).
    OnNode("Xid 145", Action.REBOOT, "an NVSwitch of {board}"),
)
def log(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel log holds no Xid that asks for more than a restart of the application."""
    table, entries = expect.hardware("xid.actions", dict), state.items("xids")
    halves: dict[bool, list[View]] = {True: [], False: []}
    for entry in entries:
        halves[bool(entry.known(bool, "before_reset"))].append(entry)
    over, groups = grouped(state, halves[True]), grouped(state, halves[False])
    lost = {group.address for group in (*over, *groups) if group.code == LINK_LOST and group.fatal}
    found = [ended(finding) for group in over for finding in xid(expect, table, group)]
    for group in groups:
        if lost and group.code in DOWNSTREAM and group.address not in lost:
            found += downstream(group, table)
        else:
            found += xid(expect, table, group)
    yield from found
    if sum(len(group.texts) for group in (*over, *groups)) != len(entries):
        raise Unread("some Xid entries", "without a PCI address or a code")
    if not any(finding.blocks for finding in found):
        yield passed(f"no Xid that matters among {len(entries)} in this boot's kernel log")


def ended(finding: Finding) -> Finding:
    """What is left of the finding of messages of before a reset of all GPUs: a note of a reset."""
    if finding.action > Action.RESET_GPU:
        return finding
    summary = f"{finding.summary}; the GPUs were reset since"
    return replace(finding, summary=summary, status=Status.PASS, action=Action.MONITOR, kind="")


def downstream(group: XidGroup, table: Expected) -> Iterator[Finding]:
    """A note that an NVLink message of one GPU follows from the lost link of another."""
    if group.gpu and group.code != DOWNSTREAM[0]:
        summary = f"{group.subject}: Xid {group.code} follows from another GPU's Xid {LINK_LOST}"
        expected = rule("none", table.source)
        yield noted(summary, group.gpu, group.texts[-1] or f"Xid {group.code}", expected)


def xid(expect: Expectation, table: Expected, group: XidGroup) -> Iterator[Finding]:
    """The finding of one code on one GPU; a code that is not listed is a note with its text.

    What a new code does to the GPU, other readings show; until somebody classifies it, no action is
    known that would help.
    """
    entry = expect.at("hardware", "expect", "xid.actions", "value", str(group.code))
    action = Action.parse(entry.reading("action"))
    if action is Action.NONE:
        return
    summary = describe(group, entry)
    expected, read = rule("none", table.source), group.texts[-1] or f"Xid {group.code}"
    part = "" if group.gpu else f"PCI {group.address}"
    if entry.is_missing():
        yield noted(f"{summary}: {read[:MOST_TEXT]}", group.gpu, read, expected, part)
    elif entry.known(bool, "note") or (entry.known(bool, "nonfatal_ok") and not group.fatal):
        yield noted(summary, group.gpu, read, expected, part)
    else:
        found = failed(summary, read, expected, action, group.gpu, part, subject=group.subject)
        yield replace(found, kind=f"Xid {group.code}")


def describe(group: XidGroup, entry: View) -> str:
    """The sentence for a group: code, meaning, what its messages say, how often."""
    meaning = entry.known(str, "meaning") or "not classified yet"
    details = f": {group.details}" if group.details else ""
    times = f"{len(group.texts)} time{'s' if len(group.texts) > 1 else ''} since boot"
    return f"{group.subject}: Xid {group.code} ({meaning}), {times}{details}"
