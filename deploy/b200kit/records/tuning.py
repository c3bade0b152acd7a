"""What a tuning is made of: layouts, loads, cells, the document they end up in. Pure.

A *cell* is one layout under one load at one request rate, measured once. Cells are lines of the
site's store; all else follows from them. A line is on the disk before `append` returns, so that a
killed run loses no more than the cell it was at.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import documents
from b200kit.node.lib.documents import LARGE, structure
from b200kit.node.state.view import Unmeasured
from b200kit.records.conditions import Role, RunConditions, fields, value_of
from b200kit.records.goodput_knee import Knee, RatePoint, Sweep, knee

KEYS = (
    "replicas", "tensor_parallel", "data_parallel", "expert_parallel", "max_num_batched_tokens",
    "max_num_seqs",
)  # fmt: skip
"""The inventory keys that make a layout."""


@dataclass(frozen=True)
class Layout:
    """A layout by its inventory keys; *names* are where it is from, such as ("configured", "B")."""

    replicas: int
    tensor_parallel: int
    data_parallel: int
    expert_parallel: bool
    max_num_batched_tokens: int
    max_num_seqs: int
    names: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its names, as one."""
        return "/".join(self.names)

    @property
    def values(self) -> dict[str, Any]:
        """The inventory keys with their values."""
        return {key: getattr(self, key) for key in KEYS}

    @property
    def shape(self) -> tuple[int, int, int, bool]:
        """What decides which GPUs a replica has."""
        return self.replicas, self.tensor_parallel, self.data_parallel, self.expert_parallel

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor_parallel * self.data_parallel

    def __str__(self) -> str:
        """TP2 x 4, 2048 tokens, 8 seqs (configured/A)."""
        ways = f"TP{self.tensor_parallel}"
        ways += f"+DP{self.data_parallel}" if self.data_parallel > 1 else ""
        ways += "+EP" if self.expert_parallel else ""
        names = f" ({self.name})" if self.names else ""
        limits = f"{self.max_num_batched_tokens} tokens, {self.max_num_seqs} seqs"
        return f"{ways} x {self.replicas}, {limits}{names}"


@dataclass(frozen=True)
class Workload:
    """A load by its lengths, in tokens a request."""

    name: str
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Load:
    """The request of each cell besides its rate: least requests and seconds, objective in ms."""

    requests: int
    seconds: float
    ttft_ms: float
    tpot_ms: float

    def count(self, rate: float) -> int:
        """Requests of a cell: enough of them, and for long enough that a queue can build up."""
        return max(self.requests, round(rate * self.seconds))


def key(layout: Layout, workload: Workload, load: Load, system: str) -> str:
    """Names what a sweep was measured for: cells of another key are not this sweep's."""
    parts = [layout.values, asdict(workload), asdict(load), system]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def system(run_conditions: RunConditions, requested: Mapping[str, Any]) -> str:
    """Digest of what must be the same for cells to belong together: a run's system fields.

    What the layout or a cell decides is left out: it is in the key of each cell. *requested* is
    the rest of the serving in the inventory.
    """
    left_out = ("serving.", "load.", "versions.engine_says")
    values = {
        name: _plain(value_of(run_conditions, name))
        for name, field in fields().items()
        if field.role is Role.SYSTEM and not name.startswith(left_out)
    }
    text = json.dumps([values, requested], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    return {"unmeasured": True} if isinstance(value, Unmeasured) else value


@dataclass(frozen=True)
class TuningCell:
    """A layout under a load at a rate (requests/s), measured once.

    rate: None where none was tried. ours: None where our client has no result. started, ended:
    empty where nothing began.
    """

    layout: Layout
    workload: str
    rate: float | None
    status: Literal["done", "failed", "skipped"]
    why: str = ""
    ours: SmokeResult | None = None
    started: str = ""
    ended: str = ""

    @property
    def is_done(self) -> bool:
        """Whether our client has figures of the server."""
        return self.status == "done" and self.ours is not None

    @property
    def point(self) -> RatePoint:
        """The cell as the sweep sees it: by our client's figures."""
        rate = self.rate or 0.0
        if self.status != "done" or self.ours is None:
            return RatePoint(rate, why=self.why or f"the cell {self.status}")
        main = self.ours.main
        good = round(main.goodput_share * main.num_prompts)
        return RatePoint(rate, good, main.num_prompts, main.failed, main.request_goodput)


def fault(ours: SmokeResult) -> str:
    """Why a result of our client says nothing about the server; empty where it does."""
    if ours.verdict == "invalid" or ours.client.starved:
        return f"invalid: {ours.why}"
    return "" if ours.main.num_prompts else f"no load was sent: {ours.why}"


@dataclass(frozen=True)
class TuningLine:
    """What every line of a tuning's file has."""

    schema: ClassVar[str] = "b200kit/tuning-line/2"
    derived: ClassVar[tuple[str, ...]] = ("kind",)
    most_bytes: ClassVar[int] = LARGE
    kind: ClassVar[str]


@dataclass(frozen=True)
class LayoutLine(TuningLine):
    """A layout that is up after so many seconds; or *why* it is not."""

    kind: ClassVar[str] = "layout"

    layout: Layout
    seconds: float
    at: str
    why: str = ""


@dataclass(frozen=True)
class CellLine(TuningLine):
    """A cell of the sweep that `key` names."""

    kind: ClassVar[str] = "cell"

    key: str
    cell: TuningCell


AnyLine = LayoutLine | CellLine


@dataclass(frozen=True)
class RefusedLayout:
    """A layout or a load that cannot be, and why, in one line."""

    name: str
    why: str

    def __str__(self) -> str:
        """C: replicas: ..."""
        return f"{self.name}: {self.why}"


@dataclass(frozen=True)
class LayoutKnee:
    """The knee of a layout under a load."""

    layout: Layout
    workload: str
    knee: Knee


@dataclass(frozen=True)
class ChoiceEvidence:
    """What a layout came to."""

    layout: Layout
    words: str


@dataclass(frozen=True)
class LayoutChoice:
    """The layout for the goal or None, those that are as good, the evidence, best first."""

    layout: Layout | None
    why: str
    alike: tuple[str, ...] = ()
    evidence: tuple[ChoiceEvidence, ...] = ()


@dataclass(frozen=True)
class TuningResult:
    """The whole tuning of a node."""

    schema: ClassVar[str] = "b200kit/tuning/2"
    most_bytes: ClassVar[int] = LARGE

    node: str
    goal: str
    share: float
    cells: tuple[TuningCell, ...]
    knees: tuple[LayoutKnee, ...]
    chosen: LayoutChoice
    refused: tuple[RefusedLayout, ...] = ()


def knees(cells: Iterable[TuningCell], sweep: Sweep) -> tuple[LayoutKnee, ...]:
    """The knee of each layout and load among the cells that were tried, in their order."""
    found: dict[tuple[Layout, str], list[RatePoint]] = {}
    for cell in cells:
        if cell.rate is not None:
            found.setdefault((cell.layout, cell.workload), []).append(cell.point)
    return tuple(
        LayoutKnee(layout, workload, knee(points, sweep))
        for (layout, workload), points in found.items()
    )


def line_of(text: str) -> AnyLine:
    """The line of a tuning that is written so. Raises Malformed."""
    value = documents.decode(documents.Object, text, LARGE)
    kinds: dict[object, Any] = {"layout": LayoutLine, "cell": CellLine}
    line: AnyLine = structure(kinds.get(value.get("kind"), CellLine), value)
    return line
