"""Readings that no check judges, or that explain the verdict: for whoever looks closer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from b200kit.report.document import Pairs, Unmeasured, integer, items, mapping, number, read, show

REMOTE = {0: "GPU", 1: "I/O bridge", 2: "switch"}  # nvml.h NVML_NVLINK_DEVICE_TYPE_*, by value
_DCGM = ("nvidia-dcgm.service", "dcgm.service")
_NO_GPU = "unmeasured: no GPU to ask"
_PCIE = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
_SPREADS: tuple[tuple[str, ...], ...] = (
    ("GPU temperature (°C)", "temperature_c"),
    ("memory temperature (°C)", "memory_temperature_c"),
    ("margin to the limit (°C)", "temperature_margin_c"),
    ("margin to slowdown (°C)", "slowdown_margin_c"),
    ("power draw (mW)", "power_usage_mw"),
    ("SM clock (MHz)", "sm_clock_mhz"),
    ("memory clock (MHz)", "mem_clock_mhz"),
    ("PCIe generation now", "pcie", "generation"),
    ("PCIe lanes at most", "pcie", "max_width"),
    ("rows remapped for correctable errors", "remap", "correctable"),
    ("memory banks with all spares", "remap", "banks", "max"),
    ("memory banks with most spares", "remap", "banks", "high"),
    ("memory banks with some spares", "remap", "banks", "partial"),
)
"""Figures of every GPU: the lowest and the highest are shown."""
_SYSTEM = (
    ("host", ("host",), ("hostname", "machine_id", "arch")),
    ("operating system", ("host", "os"), ("id", "version_id")),
    ("CPUs", ("cpus",), ("model", "online")),
    ("node program", ("tool",), ("version", "sha256")),
)
"""Readings that stand on one line: where they are, and which."""


def reported(host: object) -> Pairs:
    """Return these readings of a HostRecord as (name, value or why not)."""
    return list(_reported(read(host, "state"), host))


def _reported(state: object, host: object) -> Iterator[tuple[str, str]]:
    kernel, notes = read(state, "kernel"), read(state, "notes")
    gpus, on_pci = items(read(state, "gpus")), items(read(state, "pci", "gpus"))
    ports = [p for nic in items(read(state, "pci", "nics")) for p in items(read(nic, "ports"))]
    bridges = [bridge for gpu in on_pci for bridge in items(read(gpu, "bridges"))]
    yield "NVLink FEC history", _fec(gpus)
    yield "NVLink peers", _peers(gpus)
    for name, *keys in _SPREADS:
        yield name, _spread(gpus, *keys)
    yield "IOMMU of the GPUs", _tally(show(read(e, "iommu"), absent="no IOMMU") for e in on_pci)
    yield "transparent hugepages", show(read(kernel, "transparent_hugepages"))
    yield "hugepages", show(read(kernel, "hugepages"))
    limit = integer(read(kernel, "memlock_bytes"))
    mib = "unlimited" if limit == -1 else f"{(limit or 0) / 1048576:.4g} MiB"
    yield "locked memory limit", show(read(kernel, "memlock_bytes")) if limit is None else mib
    yield "DCGM", _dcgm(read(state, "units"))
    yield "passport", _taken(read(notes, "passport"), "accepted_at")
    yield "bandwidth", _bandwidth(read(notes, "bandwidth"))
    yield "waivers", _waivers(read(host, "expectation", "waivers"))
    for name, path, parts in _SYSTEM:
        yield name, _joined(read(state, *path), parts)
    yield "kernel command line", show(read(state, "host", "cmdline"))
    yield "Python", show(read(state, "host", "python"))
    yield "kernel modules", _each(read(state, "modules"))
    yield "driver options", _each(read(kernel, "driver_options"))
    for name, unit in mapping(read(state, "units")).items():
        yield show(name), _joined(unit, ("load", "active", "main_pid", "n_restarts"))
    yield "PCI device id", _tally(show(read(gpu, "device_id")) for gpu in gpus)
    yield "device minor", ", ".join(show(read(gpu, "minor")) for gpu in gpus) or _NO_GPU
    yield "fabric clique", _tally(show(read(gpu, "fabric", "clique_id")) for gpu in gpus)
    yield "fabric cluster", _tally(show(read(gpu, "fabric", "cluster_uuid")) for gpu in gpus)
    yield "PCIe link by the kernel", _tally(_joined(gpu, _PCIE) for gpu in on_pci)
    yield "widest lanes of the bridges", _tally(show(read(b, "max_link_width")) for b in bridges)
    yield "CPUs next to the GPUs", _tally(show(read(gpu, "local_cpus")) for gpu in on_pci)
    yield "NIC ports", _tally(_joined(p, ("number", "link_layer", "rate_gbps")) for p in ports)
    yield "listening", ", ".join(map(show, items(read(state, "listening")))) or "nothing"
    yield "disks", _each(read(state, "disks"))
    last = read(notes, "verdict")
    yield "verdict of the last boot", "none" if last is None else _joined(last, ("fit", "taken_at"))
    warm = read(notes, "warm")
    replicas = [f"{show(name)}: {_warm(record)}" for name, record in mapping(warm).items()]
    yield (
        "warmed replicas",
        str(warm) if isinstance(warm, Unmeasured) else ", ".join(replicas) or "none",
    )


def _links(gpus: list[object]) -> Iterator[tuple[int, int, object]]:
    """Every NVLink as (GPU, link, reading)."""
    for position, gpu in enumerate(gpus):
        for link, entry in enumerate(items(read(gpu, "links"))):
            yield position, link, entry


def _fec(gpus: list[object]) -> str:
    """How many links reach which bin: bin n counts codewords with n corrected errors."""
    highest: Counter[int] = Counter()
    worst, unread = (-1, 0, 0), 0
    for gpu, link, entry in _links(gpus):
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


def _peers(gpus: list[object]) -> str:
    """What the links lead to; on this hardware a switch."""
    kinds = [read(entry, "remote_type") for _, _, entry in _links(gpus)]
    names = [show(kind) if integer(kind) is None else REMOTE.get(int(str(kind)), show(kind))
             for kind in kinds]  # fmt: skip
    return _tally(names) + " links" if names else "unmeasured: no link to ask"


def _dcgm(units: object) -> str:
    """The state of DCGM's unit, where it was observed."""
    if isinstance(units, Unmeasured):
        return str(units)
    found = next((name for name in _DCGM if name in mapping(units)), "")
    return show(read(units, found, "active")) if found else "unmeasured: its unit was not observed"


def _taken(note: object, key: str = "taken_at") -> str:
    """When a note on the node was written."""
    return "none on the node" if note is None else show(read(note, key))


def _bandwidth(note: object) -> str:
    """The range of each bandwidth test's results with their date."""
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
    return f"{'; '.join(parts)} ({_taken(note)})" if parts else _taken(note)


def _waivers(value: object) -> str:
    """Each waiver with its owner and its end."""
    parts = [
        f"{show(read(w, 'check'))} by {show(read(w, 'owner'))} until {show(read(w, 'until'))}"
        for w in items(value)
    ]
    return "; ".join(parts) or (str(value) if isinstance(value, Unmeasured) else "none")


def _warm(record: object) -> str:
    """How the last warm-up of a replica ended; its rounds are in the node's JSON."""
    if isinstance(record, Unmeasured) or read(record, "warm") is not True:
        why = record if isinstance(record, Unmeasured) else read(record, "problem")
        return f"not warm: {show(why)}"
    ttft, took = number(read(record, "ttft_ms")), number(read(record, "took_s"))
    after = f" after {took:.1f} s" if took is not None else ""
    p50 = f", TTFT P50 {ttft:.1f} ms" if ttft is not None else ""
    rounds = len(items(read(record, "rounds")))
    return f"warm at {show(read(record, 'taken_at'))}{after} and {rounds} rounds{p50}"


def _tally(values: Iterable[str]) -> str:
    """Each value with how often it was read: ``identity on 8``."""
    return ", ".join(f"{value} on {count}" for value, count in Counter(values).items()) or _NO_GPU


def _spread(gpus: list[object], *keys: str) -> str:
    """The lowest and the highest value of all GPUs with their GPU, how many have none."""
    found = [(v, i) for i, gpu in enumerate(gpus) if (v := number(read(gpu, *keys))) is not None]
    if not found:
        return show(read(gpus[0], *keys)) if gpus else _NO_GPU
    (low, at), (high, most) = min(found), max(found)
    text = f"{show(low)} on GPU {at} to {show(high)} on GPU {most}"
    text = f"{show(low)} on all" if low == high else text
    return text + (f"; {len(gpus) - len(found)} unmeasured" if len(found) < len(gpus) else "")


def _each(value: object) -> str:
    """The entries of a map as ``name: value``, or why there are none."""
    if isinstance(value, Unmeasured):
        return str(value)
    parts = (
        f"{show(name)}: {_joined(entry, mapping(entry)) if mapping(entry) else show(entry)}"
        for name, entry in mapping(value).items()
    )
    return ", ".join(parts) or "none"


def _joined(value: object, keys: Iterable[str]) -> str:
    """Some readings of a map on one line."""
    if isinstance(value, Unmeasured):
        return str(value)
    return "; ".join(show(read(value, key)) for key in keys)
