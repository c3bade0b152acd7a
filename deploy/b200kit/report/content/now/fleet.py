"""The fleet now: what all its nodes answered, those first that need a person. Pure.

Nodes of which the same is to be said are one row, and the sound ones are one, so that a thousand
are read as easily as twelve. *Proof freshness* here is this moment's share of the GPUs that get
requests whose replica serves under a valid proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from b200kit.node.lib import timestamp
from b200kit.report.content.now.node import (
    RANK,
    SERVING,
    STATES,
    NodeAnswer,
    NodeNow,
    NowPoint,
    Planned,
    Refused,
    node_now,
)
from b200kit.report.document import counted
from b200kit.report.outcome import Outcome

_OUT = ("out", "partly out")


@dataclass(frozen=True, slots=True)
class FleetRow:
    """Nodes of which the same is to be said. The first point is the worst; *when* the oldest."""

    names: tuple[str, ...]
    points: tuple[NowPoint, ...]
    when: str

    @property
    def outcome(self) -> Outcome:
        """How they stand."""
        return STATES[self.points[0].state]


@dataclass(frozen=True, slots=True)
class FleetNow:
    """All nodes at a time *at*, in seconds since 1970, asked every *every_s*.

    *rows*: what is to be said, most urgent first. *sound*: names of the rest. *rollouts*: a line
    each. Exit codes as other commands': 0 all serve under a valid proof, 2 nothing is worse than
    not known, else 1.
    """

    at: float
    every_s: float
    nodes: tuple[NodeNow, ...]
    rows: tuple[FleetRow, ...]
    sound: tuple[str, ...]
    rollouts: tuple[str, ...]

    @property
    def gpus(self) -> int:
        """GPUs of the replicas of all nodes that said how many they have."""
        return sum(node.gpus or 0 for node in self.nodes)

    @property
    def unread(self) -> int:
        """Nodes that did not say."""
        return sum(node.gpus is None for node in self.nodes)

    @property
    def serving(self) -> int:
        """Nodes with a replica that gets requests."""
        return sum(bool(node.replicas and node.replicas[0]) for node in self.nodes)

    @property
    def proven(self) -> tuple[int, int]:
        """GPUs that serve under a valid proof, and GPUs that serve."""
        nodes = self.nodes
        return sum(n.proven_gpus for n in nodes), sum(n.serving_gpus for n in nodes)

    def count(self, *words: str) -> int:
        """Nodes that stand so."""
        return sum(node.outcome.word in words for node in self.nodes)

    @property
    def out(self) -> int:
        """Nodes with a replica that should get requests and does not."""
        return self.count(*_OUT)

    @property
    def exit_code(self) -> int:
        """As of a run."""
        outcomes = {node.outcome for node in self.nodes}
        if any(one.tone == "bad" or one.word == "planned" for one in outcomes):
            return 1
        known = all(one.tone in ("good", "waived") for one in outcomes)
        return 0 if known and outcomes else 2


def fleet_now(
    known: Mapping[str, NodeAnswer],
    planned: Mapping[str, Planned],
    rollouts: Sequence[str],
    now: float,
    every_s: float,
    refused: Mapping[str, Refused] | None = None,
) -> FleetNow:
    """What is known of every node of an inventory, in its order, as it is to be shown."""
    nodes = tuple(
        node_now(name, one, planned.get(name), (refused or {}).get(name), now)
        for name, one in known.items()
    )
    sound = tuple(node.name for node in nodes if node.outcome is SERVING)
    return FleetNow(now, every_s, nodes, _rows(nodes), sound, tuple(rollouts))


def _rows(nodes: Sequence[NodeNow]) -> tuple[FleetRow, ...]:
    alike: dict[tuple[NowPoint, ...], list[NodeNow]] = {}
    for node in nodes:
        if node.points:
            alike.setdefault(node.points, []).append(node)
    rows = [_row(those) for those in alike.values()]
    return tuple(sorted(rows, key=lambda row: RANK[row.points[0].state]))


def _row(those: Sequence[NodeNow]) -> FleetRow:
    oldest = max((node.points for node in those), key=lambda points: points[0].age_s)
    return FleetRow(tuple(node.name for node in those), oldest, oldest[0].when)


def figures(fleet: FleetNow) -> Iterator[tuple[str, str]]:
    """The fleet's line, in parts, each with its tone or ""."""
    count = len(fleet.nodes)
    yield counted(count, "node"), ""
    yield f"{fleet.gpus} GPUs" + (f" (of {count - fleet.unread} nodes)" if fleet.unread else ""), ""
    yield f"proof freshness {freshness(fleet)}", _tone_of_proof(fleet)
    yield f"serving {fleet.serving}", ""
    planned, unknown = fleet.count("planned"), fleet.count("not read", "unknown")
    for word, number, tone in (
        ("refused", fleet.count("red", "unfit"), "bad"),
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


def told(one: NowPoint, when: str) -> str:
    """A point with its time: "since 09:14:02Z (4 m 10 s): GPU 3 has 17 of 18 NVLinks up"."""
    return f"{when}: {one.what}" if when else one.what


def once_each(points: Sequence[NowPoint]) -> Iterator[tuple[NowPoint, str]]:
    """Each point with what to do, which is said once where several ask for the same."""
    said: set[str] = set()
    for one in points:
        yield one, "" if one.next in said else one.next
        said.add(one.next)


def all_sound(fleet: FleetNow) -> str:
    """What is true of every sound node."""
    names = {*fleet.sound}
    ends = [node.proof.until for node in fleet.nodes if node.name in names and node.proof.until]
    until = f", the first until {timestamp.text(min(ends))[11:]}" if ends else ""
    return f"every replica gets requests, under a valid proof{until}"


def as_read(fleet: FleetNow) -> str:
    """When this was read, and when the next time is."""
    again = f", renewed every {fleet.every_s:g} s" if fleet.every_s else ""
    return f"as read at {made(fleet)}{again}"


def made(fleet: FleetNow) -> str:
    """The time of it: "2026-11-25 13:00:00Z"."""
    return timestamp.text(datetime.fromtimestamp(fleet.at, timestamp.UTC)).replace("T", " ")
