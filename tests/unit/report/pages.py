"""A produced page, parsed: its elements in order, their text, the pictures and tables in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

from b200kit.node.lib.documents import unstructure
from b200kit.report.files import write_hosts
from b200kit.report.html.page import render
from b200kit.report.outcome import hosts_of
from b200kit.report.terminal.page import lines
from tests.unit import smoke_results
from tests.unit.report import records

DATA = Path(__file__).resolve().parents[2] / "data" / "report"
_VOID = {"meta", "link", "br", "img", "input", "hr"}


def write(record: object, directory: Path, *, secrets: Iterable[str] = ()) -> Path:
    """Write the report of a whole record; returns the path of its page."""
    return write_hosts(record, hosts_of(record).items(), directory, secrets=secrets)[0]


class Page(HTMLParser):
    """Collects elements and text, and checks that every element is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.text = ""
        self.titles: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open[-2:] == ["svg", "title"]:
            self.titles.append(data)


def page(**hosts: Any) -> Page:
    """Return the parsed page of a run over `hosts`."""
    return Page(render(records.record(**hosts)))


def terminal(record: object, **options: Any) -> str:
    """Return what a run prints."""
    return "\n".join(lines(record, **options)) + "\n"


def classes(found: Page) -> Counter[str]:
    """Count the values of all class attributes."""
    return Counter(value for _, name, value in found.attributes if name == "class")


def tuning() -> dict[str, Any]:
    """The tuning of tests/data/report; every figure in it is made up."""
    found = dict(json.loads((DATA / "tuning.json").read_text(encoding="utf-8")))
    for cell in found["cells"]:
        if changes := cell.get("ours"):
            own = replace(smoke_results.result(changes).without_series(), direct={})
            cell["ours"] = unstructure(own)
    return found


def requests(count: int = 40, *, failed: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """One entry a request, four a second; the tenth waited for two seconds. Made up."""
    found: list[dict[str, Any]] = []
    for i in range(count):
        ttft = 2040.0 if i == 10 else 40.0 + i % 5
        figures: dict[str, Any] = {"ttft_ms": ttft, "tpot_ms": 10.0, "itl_max_ms": 20.0 + i % 3,
                                   "e2el_ms": ttft + 630.0, "error": None}  # fmt: skip
        if i in failed:
            figures = dict.fromkeys(figures) | {"error": "status 503: no server"}
        found.append({"at_s": i / 4, **figures})
    return found


def reprovisioned() -> dict[str, Any]:
    """What mending did with a node, as it stands in a HostRecord."""
    states = ("serving", "quarantined", "drained", "evidenced", "acting", "provisioned", "proven")
    steps = pairwise(states)
    return {
        "level": "reset-gpus",
        "why": "GPU 2 has no NVLink",
        "state": "proven",
        "history": [
            {
                "at": f"2026-11-21T09:4{i}:00Z",
                "began": f"2026-11-21T09:4{i}:00Z",
                "before": a,
                "after": b,
                "action": b,
                "outcome": f"did {b}",
            }
            for i, (a, b) in enumerate(steps)
        ],
        "parts": ["GPU 2 (module 7)"],
        "evidence": "evidence/n01.tar",
        "quarantine": {"who": "ops", "when": "2026-11-21T09:40:00Z", "why": "no NVLink"},
    }
