"""A smoke test of an endpoint as a person reads it: numbers with formulas and intervals. Pure."""

from __future__ import annotations

from b200kit.node.client.engine_metrics import ServerFigures
from b200kit.node.client.formulas import Ends, OwnError, PathFigures
from b200kit.node.client.smoke_result import SmokeResult, TokenCounts
from b200kit.node.state.view import Unmeasured

BRIEF = {
    "ttft": ("TTFT", "first chunk with output - sent"),
    "itl": ("ITL", "gap between two chunks"),
    "tpot": ("TPOT", "(E2E - TTFT) / (tokens - 1)"),
    "e2el": ("E2E", "last chunk - sent"),
}
"""Name and formula of each metric, short; the whole ones are in the result's `formulas`."""

_HEAD = ("ms", "P50 [95% CI]", "P95 [95% CI]", "P99", "max", "n", "formula")
_WIDTHS = (4, 20, 20, 6, 6, 6, 0)


def lines(smoke: SmokeResult, url: str, answers: str) -> list[str]:
    """The whole result; it ends with the verdict and its reasons.

    An invalid run states no latency: a number that is printed is believed.
    """
    if not smoke.main.num_prompts:
        return [f"{url}: no load was sent", *_verdict(smoke)]
    valid = smoke.verdict != "invalid"
    return [
        *_conditions(smoke, url),
        *(_table(smoke.main) if valid else []),
        *(_goodput(smoke) if valid else []),
        _server(smoke.server),
        f"  prompts   {smoke.load.prompts}",
        f"  answers   {answers}",
        *_client(smoke),
        *_verdict(smoke),
    ]


def _conditions(smoke: SmokeResult, url: str) -> list[str]:
    main, load, conditions = smoke.main, smoke.load, smoke.conditions
    version = conditions.engine_version or "engine version unknown"
    sent = f"{main.completed} of {main.num_prompts} requests complete"
    length = _lengths(conditions.isl_measured, load.isl_requested)
    answer = _lengths(conditions.osl_measured, load.osl_requested)
    return [
        f"{url}  {conditions.model}  {version}",
        f"{load.arrival}; {sent} in {main.duration:.1f} s",
        f"tokens in {length}, out {answer}, a chunk {_number(main.tokens_per_chunk, 2)};"
        f" seed {load.seed}",
    ]


def _lengths(measured: TokenCounts | None, requested: int) -> str:
    return f"{'-' if measured is None else f'{measured.mean:.0f}'} (requested {requested})"


def _table(main: PathFigures) -> list[str]:
    rows = [_HEAD, *(_row(main, key) for key in BRIEF)]
    notes = [note for note in (main.p95_note, main.p99_note) if note]
    return [*(_line(row) for row in rows), *(f"      {note}" for note in notes)]


def _row(main: PathFigures, key: str) -> tuple[str, ...]:
    (name, formula), found = BRIEF[key], main.latency(key)
    p50, p95 = (
        _quantile(found.p50_ms, found.p50_ci95_ms), _quantile(found.p95_ms, found.p95_ci95_ms)
    )  # fmt: skip
    return (name, p50, p95, _number(found.p99_ms), _number(found.max_ms), str(found.n), formula)


def _quantile(value: float | None, bounds: Ends | None) -> str:
    """The value with its interval; "-" where the sample does not carry it, or a bound."""
    if value is None or bounds is None:
        return _number(value)
    return f"{_number(value)} [{_number(bounds[0])}, {_number(bounds[1])}]"


def _line(row: tuple[str, ...]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, _WIDTHS, strict=True))
    return ("  " + " ".join(cells)).rstrip()


def _goodput(smoke: SmokeResult) -> list[str]:
    main, objective = smoke.main, smoke.conditions.objective
    if not objective.limits:
        return []
    low, high = main.goodput_share_ci95
    return [
        f"  goodput   {main.request_goodput:.2f} requests/s met {objective}"
        f" ({main.goodput_share:.0%} [{low:.0%}, {high:.0%}]; asked {objective.share:.0%})"
    ]


def _server(server: ServerFigures) -> str:
    means = {"TTFT": server.ttft_mean_ms, "ITL": server.itl_mean_ms, "queue": server.queue_mean_ms}
    known = [f"{n} mean {ms:.1f} ms" for n, ms in means.items() if not isinstance(ms, Unmeasured)]
    if not isinstance(server.preemptions, Unmeasured):
        known.append(f"{server.preemptions} preemptions")
    if not isinstance(server.prefix_hit_rate, Unmeasured):
        known.append(f"prefix hits {server.prefix_hit_rate:.0%}")
    if not isinstance(server.spec_acceptance_rate, Unmeasured):
        known.append(f"{server.spec_acceptance_rate:.0%} of speculated tokens accepted")
    if not known and isinstance(server.ttft_mean_ms, Unmeasured):
        return f"  server    not measured: {server.ttft_mean_ms.reason}"
    return f"  server    {', '.join(known)}"


def _client(smoke: SmokeResult) -> list[str]:
    client = smoke.client
    share, lag = client.run_delay_share, client.loop_lag_ms_p99
    cpu = "not measured" if isinstance(share, Unmeasured) else f"{share:.1%} of the time"
    loop = "not measured" if isinstance(lag, Unmeasured) else f"{lag:.1f} ms late at P99"
    return [
        f"  client    wait for a CPU {cpu}; event loop {loop}; {_priority(client.scheduler)}",
        *_error(client.own_error),
        f"            requests sent {_number(smoke.schedule_delay_ms.p99)} ms late at P99;"
        f" {_number(smoke.connect_ms.p50)} ms of TTFT go into connecting",
    ]


def _error(own: OwnError | None) -> list[str]:
    """How far the figures may be off, and which are therefore not there."""
    if own is None:
        return []
    off = f"{own.p50_ms:.2f} ms at P50, {own.p95_ms:.2f} at P95, {own.p99_ms:.2f} at P99"
    return [f"            own error {off}; over {own.share:.0%} of a figure: -"]


def _priority(scheduler: str) -> str:
    return "real-time" if scheduler == "rr" else "ordinary priority"


def _verdict(smoke: SmokeResult) -> list[str]:
    word = smoke.verdict.upper()
    return [
        word if not smoke.reasons else f"{word}  {smoke.reasons[0]}",
        *(f"{' ' * len(word)}  {reason}" for reason in smoke.reasons[1:]),
    ]


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
