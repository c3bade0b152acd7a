"""Readings that no check judges, or that explain the verdict: for whoever looks closer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from b200kit.report.content.node_readings import recorded, spread, tally
from b200kit.report.document import Pairs, Unmeasured, integer, items, mapping, number, read, show

REMOTE = {0: "GPU", 1: "I/O bridge", 2: "switch"}  # nvml.h NVML_NVLINK_DEVICE_TYPE_*, by value
_DCGM = ("nvidia-dcgm.service", "dcgm.service")
_MEMLOCK = -1  # unlimited


def reported(host: object) -> Pairs:
    """Return the reported readings of a HostRecord as (name, value or why not)."""
    state, kernel = read(host, "state"), read(host, "state", "kernel")
    gpus = items(read(state, "gpus"))
    on_pci = items(read(state, "pci", "gpus"))
    return [
        ("NVLink FEC history", fec_line(gpus)),
        ("NVLink peers", remote_line(gpus)),
        ("GPU temperature (°C)", spread(gpus, "temperature_c")),
        ("memory temperature (°C)", spread(gpus, "memory_temperature_c")),
        ("margin to the limit (°C)", spread(gpus, "temperature_margin_c")),
        ("margin to slowdown (°C)", spread(gpus, "slowdown_margin_c")),
        ("IOMMU of the GPUs", tally(show(read(e, "iommu"), absent="no IOMMU") for e in on_pci)),
        ("transparent hugepages", show(read(kernel, "transparent_hugepages"))),
        ("hugepages", show(read(kernel, "hugepages"))),
        ("locked memory limit", memlock(read(kernel, "memlock_bytes"))),
        ("DCGM", dcgm(read(state, "units"))),
        ("passport", taken(read(state, "notes", "passport"), "accepted_at")),
        ("bandwidth", bandwidth(read(state, "notes", "bandwidth"))),
        ("waivers", waivers(read(host, "expectation", "waivers"))),
        *recorded(host),
    ]


def not_applicable(verdict: object) -> Pairs:
    """Return the checks that this hardware has no use for, with the reason of each."""
    return [(show(k), show(v)) for k, v in mapping(read(verdict, "not_applicable")).items()]


def links(gpus: list[object]) -> Iterator[tuple[int, int, object]]:
    """Yield every NVLink as (GPU, link, reading)."""
    for position, gpu in enumerate(gpus):
        for link, entry in enumerate(items(read(gpu, "links"))):
            yield position, link, entry


def fec_line(gpus: list[object]) -> str:
    """Return how many links reach which bin: bin n counts codewords with n corrected errors."""
    highest: Counter[int] = Counter()
    worst, unread = (-1, 0, 0), 0
    for gpu, link, entry in links(gpus):
        bins = [integer(read(value)) for value in items(read(entry, "fec_history"))]
        if not bins or None in bins:
            unread += 1
            continue
        top = max((n for n, count in enumerate(bins) if count), default=0)
        highest[top] += 1
        worst = max(worst, (top, gpu, link))
    parts = [f"highest bin {top} on {count} links" for top, count in sorted(highest.items())]
    parts += [f"unmeasured on {unread} links"] if unread else []
    if worst[0] > 0:
        parts.append(f"worst: GPU {worst[1]} link {worst[2]}")
    return ", ".join(parts) or "unmeasured: no link to ask"


def remote_line(gpus: list[object]) -> str:
    """Return what the links lead to; on this hardware a switch."""
    kinds = [read(entry, "remote_type") for _, _, entry in links(gpus)]
    names = [REMOTE.get(n, show(n)) if (n := integer(kind)) is not None else show(kind)
             for kind in kinds]  # fmt: skip
    return tally(names) + " links" if names else "unmeasured: no link to ask"


def memlock(value: object) -> str:
    """Return RLIMIT_MEMLOCK in words."""
    limit = integer(value)
    if limit is None:
        return show(value)
    return "unlimited" if limit == _MEMLOCK else f"{limit / 1048576:.4g} MiB"


def dcgm(units: object) -> str:
    """Return the state of DCGM's unit, where it was observed."""
    if isinstance(units, Unmeasured):
        return str(units)
    found = next((name for name in _DCGM if name in mapping(units)), None)
    return "unmeasured: its unit was not observed" if found is None else show(
        read(units, found, "active"))  # fmt: skip


def taken(note: object, key: str = "taken_at") -> str:
    """Return when a note on the node was written."""
    return "none on the node" if note is None else show(read(note, key))


def bandwidth(note: object) -> str:
    """Return the range of each bandwidth test's results with their date."""
    found: dict[str, list[float]] = {}
    for result in items(read(note, "results")):
        name = f"{show(read(result, 'test'))} ({show(read(result, 'unit'))})"
        value = number(read(result, "value"))
        found.setdefault(name, []).extend([] if value is None else [value])
    parts = [
        f"{name} {show(min(values))} to {show(max(values))}, n={len(values)}"
        if values
        else f"{name} unmeasured"
        for name, values in found.items()
    ]
    return f"{'; '.join(parts)} ({taken(note)})" if parts else taken(note)


def waivers(value: object) -> str:
    """Return each waiver with its owner and its end."""
    parts = [
        f"{show(read(w, 'check'))} by {show(read(w, 'owner'))} until {show(read(w, 'until'))}"
        for w in items(value)
    ]
    return "; ".join(parts) or (str(value) if isinstance(value, Unmeasured) else "none")
