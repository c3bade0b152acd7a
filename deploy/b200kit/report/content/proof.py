"""Proof freshness: the share of the serving GPUs whose nodes have a valid proof now.

And over time, of the GPU-hours that these nodes have served since their first proof: they count
themselves (b200kit/node/proof/document.py). A node that was asked for a proof and was not observed
is named, as nothing is known of its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable

from b200kit.report.document import counted, items, mapping, number, read
from b200kit.report.outcome import hosts_of, is_check

_CHECK = "proof.valid"
_PARTS = ("serving", "proven", "served_s", "proven_s", "unread")


def proven_of(host: object) -> dict[str, float] | None:
    """GPUs that serve on a node and those of them proven, GPU-seconds likewise; None: not asked."""
    if known := mapping(read(host, "in_short", "proof")):
        return {key: number(known.get(key)) or 0.0 for key in _PARTS}
    if "proof" not in mapping(read(host, "expectation")):
        return None
    if not mapping(read(host, "state")):
        return dict.fromkeys(_PARTS, 0.0) | {"unread": 1.0}
    serving = _serving_gpus(host)
    findings = items(read(host, "verdict", "findings"))
    found = [read(finding, "status") for finding in findings if read(finding, "check") == _CHECK]
    is_proven = bool(found) and all(status == "pass" for status in found)
    counted_s = read(host, "state", "notes", "proof", "gpu_seconds")
    return {
        "serving": serving,
        "proven": serving if is_proven else 0.0,
        "served_s": number(read(counted_s, "served")) or 0.0,
        "proven_s": number(read(counted_s, "proven")) or 0.0,
        "unread": 0.0,
    }


def _serving_gpus(host: object) -> float:
    """GPUs of the replicas that run, and of those of which it is not known whether they do."""
    placed = mapping(read(host, "expectation", "placement"))
    units = [str(unit) for unit in items(read(host, "expectation", "proof", "replicas"))]
    known = mapping(read(host, "state", "units"))
    runs = [unit for unit in units if read(known.get(unit), "active") not in ("inactive", "failed")]
    return float(sum(len(items(read(placed.get(unit), "gpus"))) for unit in runs))


def proven(record: object) -> dict[str, float] | None:
    """The same of a whole run; None where no node was asked for a proof."""
    return _sum(filter(None, map(proven_of, hosts_of(record).values())))


def _sum(parts: Iterable[dict[str, float]]) -> dict[str, float] | None:
    found = list(parts)
    return {key: sum(one[key] for one in found) for key in _PARTS} if found else None


def freshness(record: object) -> str:
    """The number of a check for its last line; empty where there is none."""
    found = proven(record) if is_check(record) else None
    if found is None or not (found["serving"] or found["unread"]):
        return ""
    now, all_now = found["proven"], found["serving"]
    text = "proof freshness unmeasured"
    if all_now:
        text = f"proof freshness {_percent(now, all_now)} ({now:.0f} of {all_now:.0f} GPUs"
        over = found["served_s"]
        text += f"; {_percent(found['proven_s'], over)} of GPU-hours)" if over else ")"
    unread = int(found["unread"])
    return f"{text}, {counted(unread, 'node')} unread" if unread else text


def _percent(part: float, whole: float) -> str:
    """Rounded down: 100 % is all of it."""
    return f"{int(1000 * part / whole) / 10:g} %"
