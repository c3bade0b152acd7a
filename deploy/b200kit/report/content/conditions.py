"""The conditions of a measurement: what somebody needs to repeat it and compare."""

from __future__ import annotations

from b200kit.report.content.latency import METRICS, PERCENTILES
from b200kit.report.document import mapping, milliseconds, number, read, show

_FIRST = (
    "model", "engine", "stand_in", "arrival", "seed", "cache_salt", "isl_requested", "isl_measured",
    "osl_requested", "osl_measured", "prompts", "warmups", "max_num_seqs",
)  # fmt: skip
_OF_PROMPTS = ("prefix_hit_rate", "spec_acceptance_rate")
"""What a server's figure is worth is decided by what was sent."""


def conditions_line(smoke: object) -> str:
    """Return the conditions in one line for a terminal, in the order a reader asks for them."""
    given = mapping(read(smoke, "conditions"))
    parts = [
        f"{show(given.get('model', 'model unmeasured'))} on "
        f"{show(given.get('engine', 'engine unmeasured'))}",
        f"{_pair(given, 'isl')} tokens in, {_pair(given, 'osl')} out",
    ]
    rest = ("arrival", "seed", "warmups", "max_num_seqs")
    parts += [f"{key.replace('_', ' ')} {show(read(given, key))}" for key in rest]
    return "; ".join(parts)


def _pair(given: dict[str, object], side: str) -> str:
    requested, got = show(read(given, f"{side}_requested")), read(given, f"{side}_measured")
    spread = [number(read(got, key)) for key in ("mean", "min", "max")]
    if None in spread:
        return f"{requested} requested/{show(got)} measured"
    mean, low, high = (f"{value:.4g}" for value in spread if value is not None)
    return f"{requested} requested/{mean} measured" + (f" ({low} to {high})" if low != high else "")


def rows(smoke: object) -> list[tuple[str, str]]:
    """Return every condition of the measurement as (name, value), the usual ones first."""
    given = mapping(read(smoke, "conditions"))
    order = [key for key in _FIRST if key in given] + [key for key in given if key not in _FIRST]
    return [(key.replace("_", " "), show(given[key])) for key in order]


def instruments(smoke: object) -> list[tuple[str, str]]:
    """Return what the client and the server reported of themselves during the measurement."""
    rows = [(f"client {k.replace('_', ' ')}", show(v)) for k, v in _entries(smoke, "client")]
    rows += [(f"schedule delay {k} (ms)", show(v)) for k, v in _entries(smoke, "schedule_delay_ms")]
    rows.append(("tokens per chunk", show(read(smoke, "tokens_per_chunk"))))
    prompts = show(mapping(read(smoke, "conditions")).get("prompts", "prompts unmeasured"))
    for key, value in _entries(smoke, "server"):
        beside = f" ({prompts})" if key in _OF_PROMPTS else ""
        rows.append((f"server {key.replace('_', ' ')}", show(value) + beside))
    return rows


def _entries(smoke: object, key: str) -> list[tuple[str, object]]:
    found = mapping(read(smoke, key))
    return [(name, read(found, name)) for name in found] or [("", read(smoke, key))]


def paths(smoke: object) -> list[tuple[str, list[str]]]:
    """Return the same latencies by path (gateway, direct), as (path, cells)."""
    rows = []
    for name, summary in mapping(read(smoke, "paths")).items():
        cells = []
        for key in METRICS:
            found = [number(read(summary, f"{p}_{key}_ms")) for p in PERCENTILES]
            cells.append(" / ".join(map(milliseconds, found)))
        rows.append((show(name), cells))
    return rows
