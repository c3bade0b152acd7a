"""The text of an NVLink 5 Xid (144 to 150), taken apart. Pure.

    NETIR_LINK_EVT  Fatal   XC0 i0 Link 00 (0x026001c6 0x00000000 ...)      driver 575 and later
    NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]                      before

Unit, event, severity and link are spelled out; the reason of a link event is in bits 20-25 of the
first word (NVIDIA's Xid catalog, sheet "XID 144-150 Decode", as leptonai/gpud generates it).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MESSAGE = re.compile(
    r"\b(?P<name>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)\s+(?P<severity>Fatal|Non-?fatal)\b"
    r"(?:\s+XC\s*[0-9]+\s+i\s*[0-9]+\s+Link\s+(?P<link>[0-9]+)(?:\s*[(\[]0x(?P<info>[0-9A-Fa-f]+))?)?"
)
LINK_EVENTS = ("NETIR_LINK_EVT", "NETIR_LINK_DOWN")
OTHER_END = {21, 32, 33, 34, 35, 36, 37}
"""Reasons of a link event that send one to the device at the other end of the link."""


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


def every(text: str) -> list[NvlinkMessage]:
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
