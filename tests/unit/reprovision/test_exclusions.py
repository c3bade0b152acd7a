"""Lemons: who was taken out how often, since when, which part of it; planned changes are none."""

from __future__ import annotations

from b200kit.node.state.verdict import Finding, Status
from b200kit.reprovision import exclusions
from b200kit.reprovision.ledger_line import ClaimLine, OpenLine
from b200kit.reprovision.planned_change import PlannedChange

PART = "module 3, PCI 0000:43:00.0, serial 1650240178932"


def out(node: str, at: str, cause: str = "xid.fatal", part: str = PART) -> OpenLine:
    """A node taken out for a fault of a part."""
    bad = Finding("it fell off the bus", Status.FAIL, "GPU 2", check="xid.fatal", part=part)
    well = Finding("well", Status.PASS, "GPU 3", check="xid.fatal", part="another")
    return OpenLine(node=node, at=at, findings=(bad, bad, well), cause=cause)


def test_nodes_and_parts_are_counted_the_most_frequent_first() -> None:
    lines = [
        out("n01", "2026-11-03T00:00:00Z", "nvlink.links", ""),
        out("n07", "2026-11-02T00:00:00Z"),
        ClaimLine(node="n07", at="2026-11-02T00:00:01Z"),
        out("n07", "2026-10-01T00:00:00Z", "nvlink.links"),
        out("n07", "2026-11-20T00:00:00Z"),
    ]
    node, part, other = exclusions.counted(lines)
    assert (node.node, node.part, node.times) == ("n07", "", 3)
    assert (node.first[:10], node.last[:10]) == ("2026-10-01", "2026-11-20")
    assert [*node.why.items()] == [("xid.fatal", 2), ("nvlink.links", 1)]
    assert (part.part, part.times, dict(part.why)) == (PART, 3, {"xid.fatal": 3})
    assert (other.node, other.part, other.times) == ("n01", "", 1)


def test_a_change_that_a_person_planned_is_no_exclusion() -> None:
    change = PlannedChange.__new__(PlannedChange)
    assert exclusions.counted([OpenLine(node="n01", change=change)]) == []
