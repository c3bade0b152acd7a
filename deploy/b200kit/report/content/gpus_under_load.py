"""The GPUs while the load ran: clock, power and temperature of each, and what slowed it."""

from __future__ import annotations

from b200kit.node.latency.gpu_samples import NUMBERS, REASONS, slowed_by
from b200kit.report.document import Unmeasured, integer, items, number, read, show
from b200kit.report.html.figure import Table

_SCALE = {"power_usage_mw": 1000.0}
_HEAD = ("GPU", "looks", "SM clock, MHz", "power, W", "temperature, \u00b0C", "slowed by")


def gpus_during(smoke: object) -> tuple[str, Table | None]:
    """Return why nothing is known of the GPUs, or "" and their table: least, median and most."""
    found = read(smoke, "gpus")
    if isinstance(found, Unmeasured):
        return str(found), None
    if not items(found):
        return "unmeasured: no GPU was looked at", None
    rows = tuple(
        (show(read(gpu, "index")), show(read(gpu, "samples")),
         *(_spread(read(gpu, key), _SCALE.get(key, 1.0)) for key in NUMBERS),
         _slowed(read(gpu, REASONS)))
        for gpu in items(found)
    )  # fmt: skip
    return "", Table(_HEAD, rows, "each GPU during the load: least / median / most")


def _spread(value: object, scale: float) -> str:
    if isinstance(value, Unmeasured):
        return str(value)
    ends = [number(read(value, key)) for key in ("min", "median", "max")]
    return " / ".join("-" if end is None else f"{end / scale:.4g}" for end in ends)


def _slowed(value: object) -> str:
    if isinstance(value, Unmeasured):
        return str(value)
    reasons = integer(value)
    return show(value) if reasons is None else ", ".join(slowed_by(reasons)) or "nothing"
