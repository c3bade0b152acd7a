"""What a node says of itself beside the verdict: system, units, clocks, PCIe ends, ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from b200kit.report.document import Pairs, Unmeasured, items, mapping, number, read, show

_NO_GPU = "unmeasured: no GPU to ask"
_PCIE = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")


def recorded(host: object) -> Pairs:
    """Return these readings of a HostRecord as (name, value or why not)."""
    state = read(host, "state")
    gpus, on_pci = items(read(state, "gpus")), items(read(state, "pci", "gpus"))
    ports = [p for nic in items(read(state, "pci", "nics")) for p in items(read(nic, "ports"))]
    bridges = [bridge for gpu in on_pci for bridge in items(read(gpu, "bridges"))]
    return [
        *_system(state),
        *_processors(gpus),
        ("PCIe link by the kernel", tally(_joined(gpu, _PCIE) for gpu in on_pci)),
        ("widest lanes of the bridges", tally(show(read(b, "max_link_width")) for b in bridges)),
        ("CPUs next to the GPUs", tally(show(read(gpu, "local_cpus")) for gpu in on_pci)),
        ("NIC ports", tally(_joined(p, ("number", "link_layer", "rate_gbps")) for p in ports)),
        *_left_on_the_node(state),
    ]


def _system(state: object) -> Iterator[tuple[str, str]]:
    host = read(state, "host")
    yield "host", _joined(host, ("hostname", "machine_id", "arch"))
    yield "operating system", _joined(read(host, "os"), ("id", "version_id"))
    yield "kernel command line", show(read(host, "cmdline"))
    yield "Python", show(read(host, "python"))
    yield "CPUs", _joined(read(state, "cpus"), ("model", "online"))
    yield "node program", _joined(read(state, "tool"), ("version", "sha256"))
    yield "kernel modules", each(read(state, "modules"))
    yield "driver options", each(read(state, "kernel", "driver_options"))
    for name, unit in mapping(read(state, "units")).items():
        yield show(name), _joined(unit, ("load", "active", "main_pid", "n_restarts"))


def _processors(gpus: list[object]) -> Iterator[tuple[str, str]]:
    yield "PCI device id", tally(show(read(gpu, "device_id")) for gpu in gpus)
    yield "device minor", ", ".join(show(read(gpu, "minor")) for gpu in gpus) or _NO_GPU
    for name, *keys in (
        ("power draw (mW)", "power_usage_mw"),
        ("SM clock (MHz)", "sm_clock_mhz"),
        ("memory clock (MHz)", "mem_clock_mhz"),
        ("PCIe generation now", "pcie", "generation"),
        ("PCIe lanes at most", "pcie", "max_width"),
        ("rows remapped for correctable errors", "remap", "correctable"),
        ("memory banks with all spares", "remap", "banks", "max"),
        ("memory banks with most spares", "remap", "banks", "high"),
        ("memory banks with some spares", "remap", "banks", "partial"),
    ):
        yield name, spread(gpus, *keys)
    yield "fabric clique", tally(show(read(gpu, "fabric", "clique_id")) for gpu in gpus)
    yield "fabric cluster", tally(show(read(gpu, "fabric", "cluster_uuid")) for gpu in gpus)


def _left_on_the_node(state: object) -> Iterator[tuple[str, str]]:
    yield "listening", ", ".join(map(show, items(read(state, "listening")))) or "nothing"
    yield "disks", each(read(state, "disks"))
    verdict = read(state, "notes", "verdict")
    yield "verdict of the last boot", "none" if verdict is None else _joined(
        verdict, ("fit", "taken_at"))  # fmt: skip
    yield "warmed replicas", _warmed(read(state, "notes", "warm"))


def _warmed(records: object) -> str:
    """Return how the last warm-up of each replica ended; its rounds are in the node's JSON."""
    if isinstance(records, Unmeasured):
        return str(records)
    parts = [f"{show(name)}: {_warm(record)}" for name, record in mapping(records).items()]
    return ", ".join(parts) or "none"


def _warm(record: object) -> str:
    if isinstance(record, Unmeasured) or read(record, "warm") is not True:
        why = record if isinstance(record, Unmeasured) else read(record, "problem")
        return f"not warm: {show(why)}"
    ttft, took = number(read(record, "ttft_ms")), number(read(record, "took_s"))
    text = f"warm at {show(read(record, 'taken_at'))}"
    text += f" after {took:.1f} s" if took is not None else ""
    text += f" and {len(items(read(record, 'rounds')))} rounds"
    return text + (f", TTFT P50 {ttft:.1f} ms" if ttft is not None else "")


def tally(values: Iterable[str]) -> str:
    """Return each value with how often it was read: ``identity on 8``."""
    counts = Counter(values)
    return ", ".join(f"{value} on {count}" for value, count in counts.items()) or _NO_GPU


def spread(gpus: list[object], *keys: str) -> str:
    """Return the lowest and the highest value of all GPUs with their GPU, how many have none."""
    found = [(v, i) for i, gpu in enumerate(gpus) if (v := number(read(gpu, *keys))) is not None]
    if not found:
        return show(read(gpus[0], *keys)) if gpus else _NO_GPU
    (low, at), (high, most) = min(found), max(found)
    text = f"{show(low)} on GPU {at} to {show(high)} on GPU {most}"
    text = f"{show(low)} on all" if low == high else text
    return text + (f"; {len(gpus) - len(found)} unmeasured" if len(found) < len(gpus) else "")


def each(value: object) -> str:
    """Return the entries of a map as ``name: value``, or why there are none."""
    if isinstance(value, Unmeasured):
        return str(value)
    parts = [f"{show(name)}: {_entry(entry)}" for name, entry in mapping(value).items()]
    return ", ".join(parts) or "none"


def _entry(value: object) -> str:
    if value is None:
        return "none"
    inner = mapping(value)
    return _joined(inner, list(inner)) if inner else show(value)


def _joined(value: object, keys: Iterable[str]) -> str:
    """Return some readings of a map on one line."""
    if isinstance(value, Unmeasured):
        return str(value)
    return "; ".join(show(read(value, key)) for key in keys)
