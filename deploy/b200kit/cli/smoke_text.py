"""The smoke document as a person reads it, each number with its formula and its interval. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]

BRIEF = {
    "ttft": ("TTFT", "first chunk with output - sent"),
    "itl": ("ITL", "gap between two chunks"),
    "tpot": ("TPOT", "(E2E - TTFT) / (tokens - 1)"),
    "e2el": ("E2E", "last chunk - sent"),
}
"""Name and formula of each metric, short; the whole ones are in the document's `formulas`."""

_HEAD = ("ms", "P50 [95% CI]", "P95 [95% CI]", "P99", "max", "n", "formula")
_WIDTHS = (4, 20, 20, 6, 6, 6, 0)


def lines(document: Document, url: str) -> list[str]:
    """The whole result; it ends with the verdict and its reasons.

    An invalid run states no latency: a number that is printed is believed.
    """
    if not document["num_prompts"]:
        return [f"{url}: no load was sent", *_verdict(document)]
    valid = document["verdict"] != "invalid"
    return [
        *_conditions(document, url),
        *(_table(document) if valid else []),
        *(_goodput(document) if valid else []),
        _server(document["server"]),
        f"  prompts   {document['conditions']['prompts']}",
        *_answers(document),
        *_client(document),
        *_verdict(document),
    ]


def _conditions(document: Document, url: str) -> list[str]:
    conditions = document["conditions"]
    version = conditions["engine_version"] or "engine version unknown"
    sent = f"{document['completed']} of {document['num_prompts']} requests complete"
    pair = [
        (conditions["isl_measured"], conditions["isl_requested"]),
        (conditions["osl_measured"], conditions["osl_requested"]),
    ]
    length, answer = (f"{_mean(measured)} (requested {requested})" for measured, requested in pair)
    return [
        f"{url}  {conditions['model']}  {version}",
        f"{conditions['arrival']}; {sent} in {document['duration']:.1f} s",
        f"tokens in {length}, out {answer}, a chunk {_number(document['tokens_per_chunk'], 2)};"
        f" seed {conditions['seed']}",
    ]


def _mean(measured: Mapping[str, float] | None) -> str:
    return "-" if measured is None else f"{measured['mean']:.0f}"


def _table(document: Document) -> list[str]:
    rows = [_HEAD, *(_row(document, key) for key in BRIEF)]
    notes = [document[key] for key in ("p95_note", "p99_note") if document[key]]
    return [*(_line(row) for row in rows), *(f"      {note}" for note in notes)]


def _row(document: Document, key: str) -> tuple[str, ...]:
    name, formula = BRIEF[key]
    quantiles = [_quantile(document, f"p{percent}_{key}_ms") for percent in (50, 95, 99)]
    largest = _number(document[f"max_{key}_ms"])
    return (name, *quantiles, largest, str(document["samples"][key]), formula)


def _quantile(document: Document, key: str) -> str:
    """The value with its interval; "-" where the sample does not carry it, or a bound."""
    value, bounds = document[key], document["ci95"].get(key)
    if value is None or bounds is None:
        return _number(value)
    return f"{_number(value)} [{_number(bounds[0])}, {_number(bounds[1])}]"


def _line(row: tuple[str, ...]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, _WIDTHS, strict=True))
    return ("  " + " ".join(cells)).rstrip()


def _goodput(document: Document) -> list[str]:
    objective = document["conditions"]["objective"]
    wants = [
        f"{key[:-3]} <= {objective[key]:g} ms"
        for key in objective
        if key.endswith("_ms") and objective[key]
    ]
    if not wants:
        return []
    share, (low, high) = document["goodput_share"], document["goodput_share_ci95"]
    return [
        f"  goodput   {document['request_goodput']:.2f} requests/s met {', '.join(wants)}"
        f" ({share:.0%} [{low:.0%}, {high:.0%}]; asked {objective['share']:.0%})"
    ]


def _answers(document: Document) -> list[str]:
    outcome = document.get("golden", {}).get("outcome")
    return [f"  answers   {outcome}"] if outcome else []


def _server(server: Document) -> str:
    names = {"ttft_mean_ms": "TTFT mean", "itl_mean_ms": "ITL mean", "queue_mean_ms": "queue mean"}
    known = [f"{name} {server[key]:.1f} ms" for key, name in names.items() if _known(server[key])]
    if _known(server["preemptions"]):
        known.append(f"{server['preemptions']} preemptions")
    if _known(server["prefix_hit_rate"]):
        known.append(f"prefix hits {server['prefix_hit_rate']:.0%}")
    if _known(server.get("spec_acceptance_rate")):
        known.append(f"{server['spec_acceptance_rate']:.0%} of speculated tokens accepted")
    if not known:
        return f"  server    not measured: {server['ttft_mean_ms']['unmeasured']}"
    return f"  server    {', '.join(known)}"


def _client(document: Document) -> list[str]:
    client, late, made = (document[key] for key in ("client", "schedule_delay_ms", "connect_ms"))
    share, lag = client["run_delay_share"], client["loop_lag_ms_p99"]
    cpu = f"{share:.1%} of the time" if _known(share) else "not measured"
    loop = f"{lag:.1f} ms late at P99" if _known(lag) else "not measured"
    return [
        f"  client    wait for a CPU {cpu}; event loop {loop}; {_priority(client['scheduler'])}",
        f"            requests sent {_number(late['p99'])} ms late at P99;"
        f" {_number(made['p50'])} ms of TTFT go into connecting",
    ]


def _priority(scheduler: str) -> str:
    return "real-time" if scheduler == "rr" else "ordinary priority"


def _verdict(document: Document) -> list[str]:
    word = str(document["verdict"]).upper()
    return [
        word if not document["reasons"] else f"{word}  {document['reasons'][0]}",
        *(f"{' ' * len(word)}  {reason}" for reason in document["reasons"][1:]),
    ]


def _known(value: object) -> bool:
    return isinstance(value, (int, float))


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
