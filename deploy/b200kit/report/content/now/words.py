"""The fleet now in words that terminal and page share. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from b200kit.node.lib import timestamp
from b200kit.report.content.now.fleet import FleetNow
from b200kit.report.content.now.known import Point


def figures(fleet: FleetNow) -> list[tuple[str, str]]:
    """The fleet's line, in parts, each with its tone or ""."""
    return list(_figures(fleet))


def _figures(fleet: FleetNow) -> Iterator[tuple[str, str]]:
    count = len(fleet.nodes)
    yield f"{count} node{'s' * (count != 1)}", ""
    yield f"{fleet.gpus} GPUs" + (f" (of {count - fleet.unread} nodes)" if fleet.unread else ""), ""
    yield f"proof freshness {freshness(fleet)}", _tone_of_proof(fleet)
    yield f"serving {fleet.serving}", ""
    planned, unknown = fleet.count("planned"), fleet.count("not read", "unknown")
    for word, number, tone in (
        ("out", fleet.out, "bad"),
        ("expired", fleet.count("expired"), "bad"),
        ("not proven", fleet.count("not proven"), "unknown"),
        ("planned", planned, "idle"),
        ("not known", unknown, "unknown"),
    ):
        if number or word == "out":
            yield f"{word} {number}", tone if number else ""


def freshness(fleet: FleetNow) -> str:
    """Share of the GPUs that serve now whose replica is under a valid proof."""
    proven, serving = fleet.proven
    if not serving:
        return "-"
    # Never rounded up to the whole.
    share = min(1000 * proven // serving, 999) / 10 if proven < serving else 100
    return f"{share:g} % ({proven} of {serving} GPUs)"


def _tone_of_proof(fleet: FleetNow) -> str:
    proven, serving = fleet.proven
    return "good" if serving and proven == serving else "bad" if serving else "unknown"


def point(one: Point, when: str) -> str:
    """A point with its time: "since 09:14:02Z (4 m 10 s): GPU 3 has 17 of 18 NVLinks up"."""
    return f"{when}: {one.what}" if when else one.what


def once_each(points: Sequence[Point]) -> Iterator[tuple[Point, str]]:
    """Each point with what to do, which is said once where several ask for the same."""
    said: set[str] = set()
    for one in points:
        yield one, "" if one.next in said else one.next
        said.add(one.next)


def sound(fleet: FleetNow) -> str:
    """What is true of every sound node."""
    names = {*fleet.sound}
    ends = [node.proof.until for node in fleet.nodes if node.name in names and node.proof.until]
    until = f", the first until {timestamp.text(min(ends))[11:]}" if ends else ""
    return f"every replica gets requests, under a valid proof{until}"


def read(fleet: FleetNow) -> str:
    """When this was read, and when the next time is."""
    again = f", renewed every {fleet.every_s:g} s" if fleet.every_s else ""
    return f"as read at {made(fleet)}{again}"


def made(fleet: FleetNow) -> str:
    """The time of it: "2026-11-25 13:00:00Z"."""
    return timestamp.text(datetime.fromtimestamp(fleet.at, timestamp.UTC)).replace("T", " ")
