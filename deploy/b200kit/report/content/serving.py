"""Who serves: what the run made of a node's serving, in one line."""

from __future__ import annotations

import re

from b200kit.report.document import Unmeasured, counted, items, mapping, number, read, show
from b200kit.report.outcome import outcome_of

_REPLICA = re.compile(r"vllm(-group)?@\d+\.service")
_SERVING = "serving"
_DOWN = ("inactive", "failed")


def serving_line(host: object) -> str:
    """Say whether a node serves, was stopped by this run, or was left as it was."""
    if isinstance(known := read(host, "in_short", "serving"), str):
        return known
    withdrawn = read(host, "withdrawn")
    if mapping(withdrawn) and "units" in mapping(withdrawn):
        return _stopped(items(read(withdrawn, "units")))
    if isinstance(withdrawn, Unmeasured) and "withdrawn" in mapping(host):
        return f"STILL SERVING: it could not be stopped: {withdrawn.reason}"
    repaired = read(host, "reprovision", "state")
    if isinstance(repaired, str) and repaired != _SERVING:
        return f"out of service: {show(repaired)}"
    return "serves" if outcome_of(host).word == "live" else _observed(host)


def gpus_of_replica(row: object) -> str:
    """The GPUs of a row of the layout, and whether one process on CPUs stands for all of them."""
    names = ",".join(map(show, items(read(row, "gpus")))) or "none"
    return f"{names} (1 process)" if read(row, "processes") == 1 else names


def _stopped(units: list[object]) -> str:
    names = [show(unit) for unit in units]
    replicas = [name for name in names if _REPLICA.fullmatch(name)]
    others = [name for name in names if name not in replicas]
    what = [counted(len(replicas), "replica")] if replicas else []
    return f"stopped by this run: {', '.join([*what, *others])}" if names else "nothing served here"


def _observed(host: object) -> str:
    """What the last observation saw. What this run changed after it may have changed that."""
    units = read(host, "state", "units")
    if not mapping(read(host, "state")):
        return "unmeasured: it was not observed; what serves there was not touched"
    if isinstance(units, Unmeasured):
        return "unmeasured: its units were not read; this run stopped nothing"
    asked = {name: unit for name, unit in mapping(units).items() if _REPLICA.fullmatch(name)}
    if not asked:
        return "untouched: whether replicas ran was not read"
    runs = [
        name
        for name, unit in asked.items()
        if unit is not None and read(unit, "active") not in _DOWN
    ]
    seen = f"{counted(len(runs), 'replica') if runs else 'no replica'} ran when it was observed"
    return (
        f"unmeasured since this run's changes: {seen}" if _changed(host) else f"untouched: {seen}"
    )


def _changed(host: object) -> bool:
    return bool(number(read(host, "changes")))
