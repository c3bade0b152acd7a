"""NVLink 5 Xid texts as kernels wrote them."""

from __future__ import annotations

import pytest

from b200kit.node.checks.gpu.xid import NvlinkMessage
from b200kit.node.checks.gpu.xid import messages_in as every
from tests.subtests import in_subtests

# leptonai/gpud#1160, #1174; marin-community/marin#9086; NVIDIA/nccl#2241 for the nonfatal one.
SEEN = [
    (
        "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000 0x00000000)",
        NvlinkMessage("NETIR", "LINK_EVT", fatal=True, link=1, reason=33),
    ),
    (
        "NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]",
        NvlinkMessage("NETIR", "LINK_EVT", fatal=True, link=1, reason=0),
    ),
    (
        "NETIR_LINK_DOWN Fatal XC0 i0 Link 14",
        NvlinkMessage("NETIR", "LINK_DOWN", fatal=True, link=14),
    ),
    (
        "RLW_REMAP Fatal XC0 i0 Link 00 (0x00000004 0x00000040 0x00000000 0x00000000)",
        NvlinkMessage("RLW", "REMAP", fatal=True, link=0, reason=0),
    ),
    ("RLW_RXPIPE Nonfatal", NvlinkMessage("RLW", "RXPIPE", fatal=False)),
    ("TREX Non-fatal XC0 i0 Link 03", NvlinkMessage("TREX", "", fatal=False, link=3)),
    ("MSE_WATCHDOG Fatal", NvlinkMessage("MSE", "WATCHDOG", fatal=True)),
]


@in_subtests(("text", "message"), SEEN)
def test_a_text_is_taken_apart(text: str, message: NvlinkMessage) -> None:
    assert every(text) == [message]


@pytest.mark.parametrize(
    "text",
    ["", "pid=1, name=python3, Ch 00000001 caused by previous Xid 149", "GPU has fallen off", "?"],
)
def test_another_text_is_none(text: str) -> None:
    assert every(text) == []


@in_subtests(
    ("text", "other"),
    [
        ("NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x0)", True),
        ("NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x0)", False),
        ("NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x004001c6 0x0)", False),
        ("RLW_REMAP Fatal XC0 i0 Link 00 (0x025001c6 0x0)", False),
        ("NETIR_LINK_EVT Fatal", False),
    ],
)
def test_a_link_event_may_come_from_the_other_end(text: str, other: bool) -> None:
    [message] = every(text)
    assert message.from_other_end is other


def test_a_message_is_told_in_words() -> None:
    found = every("name=A Nonfatal, NETIR_LINK_DOWN Fatal XC0 i0 Link 14")
    assert [*map(str, found)] == ["A nonfatal", "NETIR_LINK_DOWN fatal on NVLink 14"]
