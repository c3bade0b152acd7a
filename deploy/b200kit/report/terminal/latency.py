"""A smoke test for a terminal: that of a node within its block, and that of any endpoint."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.client.smoke_result import SmokeResult
from b200kit.report.content import latency as measured
from b200kit.report.content.latency import ShownLatency
from b200kit.report.document import Unmeasured
from b200kit.report.terminal.lines import COLUMN, Lines

_TONES = {"pass": "good", "fail": "bad", "invalid": "unknown"}


def block(page: Lines, host: object) -> None:
    """The latency of a host of a deploy."""
    smoke = measured.smoke_of(host)
    latency = measured.latency_of(host, smoke)
    if isinstance(smoke, Unmeasured):
        page.fact("latency", latency.why)
        return
    page.fact("latency", f"smoke test: {latency.verdict}; {latency.age}")
    for reason in latency.reasons:
        page.fact("", reason)
    if latency.stand_in:
        page.hang(" " * COLUMN, (measured.STAND_IN, "mark"), ": ", text=measured.STAND_IN_WHY)
    _table(page, latency)
    load = dict(latency.load)
    sent = f"n = {load['requests (n)']}; {load['rate']}; tokens {load['tokens']}"
    page.fact("load", f"{sent}; {load['output']} out")
    page.fact("conditions", measured.conditions_line(smoke))


def _table(page: Lines, latency: ShownLatency, *, with_intervals: bool = False) -> None:
    """The percentiles, on request with their 95 % intervals in brackets."""
    head = [f"{measured.STAND_IN}, ms" if latency.stand_in else "ms", "P50", "P95", "P99", "max"]
    rows = [head]
    for row in latency.rows:
        ends = row.intervals if with_intervals else ("",) * len(row.cells)
        cells = (f"{c} [{i}]" if i else c for c, i in zip(row.cells, ends, strict=True))
        rows.append([row.name, *cells, row.largest])
    page.table(rows, left=COLUMN, right=frozenset({1, 2, 3, 4}))
    for note in latency.notes:
        page.fact("", note)


def endpoint(page: Lines, url: str, smoke: SmokeResult, answers: str) -> None:
    """All about an endpoint, with formulas and intervals; it ends with the verdict and its reasons.

    An invalid run states no latency: a number that is printed is believed.
    """
    latency, objective = measured.latency_of({}, smoke), smoke.conditions.objective
    version = smoke.conditions.engine_version or "engine version unknown"
    page.hang(f"{url}  ", text=f"{smoke.conditions.model}, {version}")
    load = dict(latency.load)
    if not smoke.main.num_prompts:
        page.fact("load", "none was sent")
    else:
        sent = ("requests (n)", "rate", "tokens", "took")
        page.fact("load", "; ".join(load[name] for name in sent))
        if smoke.verdict != "invalid":
            _table(page, latency, with_intervals=True)
            page.facts([(row.name, row.formula) for row in latency.rows])
            met = f"{load['met the objective']} met {objective}, asked {objective.share:.0%}"
            page.fact("goodput", f"{load['goodput']}; {met}")
        page.fact("conditions", measured.conditions_line(smoke))
        page.fact("prompts", smoke.load.prompts)
        page.fact("answers", answers)
        for whose in ("server ", "client "):
            page.fact(whose, "; ".join(_told(smoke, whose)))
    page.line((smoke.verdict.upper(), _TONES[smoke.verdict]))
    for reason in smoke.reasons:
        page.hang("  ", text=reason)


def _told(smoke: SmokeResult, whose: str) -> Iterator[str]:
    """What the server or the client reported of itself."""
    for name, text in measured.instruments(smoke):
        if name.startswith(whose) and text != "none":
            yield f"{name.removeprefix(whose)} {text.removesuffix(f' ({smoke.load.prompts})')}"
