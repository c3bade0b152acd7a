"""What a tuning is made of: layouts, loads, cells, and the document they end up in. Pure.

A *cell* is one layout under one load at one request rate, measured once by each client. Cells are
stored as lines (b200kit/tuning/store.py); all else follows from them, so that a killed run loses no
more than the cell it was at.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from b200kit.node.lib.documents import unstructure
from b200kit.node.state.path import known_number
from b200kit.node.state.view import Unmeasured
from b200kit.records.conditions import RunConditions, value_of
from b200kit.records.conditions_fields import FIELDS, Role
from b200kit.tuning.goodput_knee import Knee, Point, Sweep, knee

SCHEMA = "b200kit/tuning/1"
METRICS = ("ttft", "tpot", "itl", "e2el")
KEYS = (
    "replicas", "tensor_parallel", "data_parallel", "expert_parallel", "max_num_batched_tokens",
    "max_num_seqs",
)  # fmt: skip
"""The inventory keys that make a layout."""

Cell = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """A layout by its inventory keys; *names* are where it is from, such as ("configured", "B")."""

    derived: ClassVar[tuple[str, ...]] = ("name",)

    replicas: int
    tensor_parallel: int
    data_parallel: int
    expert_parallel: bool
    max_num_batched_tokens: int
    max_num_seqs: int
    names: tuple[str, ...] = field(default=(), metadata={"document": False})

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


def key(layout: Mapping[str, Any], workload: Workload, load: Load, system: str) -> str:
    """Names what a sweep was measured for: cells of another key are not this sweep's."""
    values = {name: layout[name] for name in KEYS}
    parts = [values, asdict(workload), asdict(load), system]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def system(run_conditions: RunConditions, requested: Mapping[str, Any]) -> str:
    """Digest of what must be the same for cells to belong together: a run's system fields.

    What the layout or a cell decides is left out: it is in the key of each cell. *requested* is
    the rest of the serving in the inventory.
    """
    left_out = ("serving.", "load.", "versions.engine_says")
    retained = [f for f in FIELDS if f.role is Role.SYSTEM and not f.name.startswith(left_out)]
    values = {field.name: _plain(value_of(run_conditions, field.name)) for field in retained}
    text = json.dumps([values, requested], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    return {"unmeasured": True} if isinstance(value, Unmeasured) else value


def point(cell: Mapping[str, Any]) -> Point:
    """A cell as the sweep sees it: by our client's figures."""
    rate, why = float(cell["rate"]), str(cell.get("why") or "")
    if cell.get("status") != "done":
        return Point(rate, why=why or f"the cell {cell.get('status')}")
    ours = cell.get("ours")
    sent, share = known_number(ours, "num_prompts"), known_number(ours, "goodput_share")
    if share is None or not sent or sent <= 0:
        return Point(rate, why="it has no figures")
    return Point(
        rate,
        round(share * sent),
        int(sent),
        int(known_number(ours, "failed") or 0),
        known_number(ours, "request_goodput"),
    )


def status(ours: Mapping[str, Any]) -> tuple[str, str]:
    """ "done", or "failed" with why: a result of our client that says nothing about the server."""
    reasons = "; ".join(map(str, ours.get("reasons") or ())) or "no reason given"
    client = ours.get("client")
    starved = isinstance(client, Mapping) and client.get("starved") is True
    if ours.get("verdict") == "invalid" or starved:
        return "failed", f"invalid: {reasons}"
    if not ours.get("num_prompts"):
        return "failed", f"no load was sent: {reasons}"
    return "done", ""


def differences(ours: Mapping[str, Any], bench: Mapping[str, Any]) -> dict[str, float]:
    """How far the medians of `vllm bench serve` are from ours, as a share of ours."""
    found = {}
    for metric in METRICS:
        mine, other = (known_number(of, f"p50_{metric}_ms") for of in (ours, bench))
        if mine and mine > 0 and other is not None:
            found[metric] = round(other / mine - 1, 4)
    return found


_GROUPS = ("p50_", "p90_", "p95_", "p99_", "mean_", "median_", "std_")
_OURS = (
    "taken_at", "verdict", "reasons", "request_rate", "num_prompts", "completed", "failed",
    "duration", "total_input_tokens", "total_output_tokens", "request_throughput",
    "request_goodput", "goodput_share", "output_throughput", "total_token_throughput",
    "tokens_per_chunk", "samples", "ci95", "p95_note", "p99_note", "schedule_delay_ms", "client",
    "server",
)  # fmt: skip
_CONDITIONS = (
    "seed", "cache_salt", "arrival", "isl_measured", "osl_measured", "isl_requested",
    "osl_requested", "stand_in", "engine", "engine_version", "objective", "prompts", "sampling",
)  # fmt: skip


def retained(smoke: Mapping[str, Any]) -> dict[str, Any]:
    """What a cell keeps of a smoke document: the figures, not the series."""
    figures = {k: v for k, v in smoke.items() if k in _OURS or k.startswith(_GROUPS)}
    conditions = smoke.get("conditions")
    known = conditions if isinstance(conditions, Mapping) else {}
    return figures | {"conditions": {k: known[k] for k in _CONDITIONS if k in known}}


def sweeps(cells: Iterable[Cell], sweep: Sweep) -> list[tuple[Layout, str, Knee]]:
    """The knee of each layout and load among the cells, in their order."""
    found: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        values = tuple(cell["layout"][name] for name in KEYS)
        found.setdefault((*values, cell["workload"]), []).append(cell)
    return [
        (layout_of(group[0]), group[0]["workload"], knee([point(c) for c in group], sweep))
        for group in found.values()
        if any(cell["rate"] is not None for cell in group)
    ]


def layout_of(cell: Mapping[str, Any]) -> Layout:
    """The layout that a cell was measured on."""
    stated = cell["layout"]
    names = tuple(filter(None, str(stated.get("name") or "").split("/")))
    return Layout(**{name: stated[name] for name in KEYS}, names=names)


def document(
    node: str, goal: str, cells: Sequence[Cell], sweep: Sweep, chosen: Mapping[str, Any]
) -> dict[str, Any]:
    """The whole tuning, schema b200kit/tuning/1."""
    return {
        "schema": SCHEMA,
        "node": node,
        "goal": goal,
        "share": sweep.share,
        "cells": list(cells),
        "knees": [
            {
                "layout": unstructure(layout),
                "workload": workload,
                "rate": found.rate,
                "goodput": found.goodput,
                "low": found.low,
                "high": found.high,
                "why": found.why,
            }
            for layout, workload, found in sweeps(cells, sweep)
        ],
        "chosen": dict(chosen),
    }
