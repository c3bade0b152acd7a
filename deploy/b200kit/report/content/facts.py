"""The facts of a node in words: GPUs, NVLinks, fabric, NUMA map, versions."""

from __future__ import annotations

from collections import Counter

from b200kit.node.checks.gpu import power
from b200kit.node.lib.documents import understood
from b200kit.node.state.view import StateView
from b200kit.report.content import latency
from b200kit.report.content.graph import COMPLETED, Topology
from b200kit.report.content.topology import outline
from b200kit.report.document import Pairs, Unmeasured, clean, items, mapping, read, show, unread
from b200kit.run import document

NO_STATE = "unmeasured: the node was not observed"


def observed(host: object) -> bool:
    """Say whether the record holds an observation of the node at all."""
    return bool(mapping(read(host, "state")))


def gpus_line(host: object, graph: Topology) -> str:
    """Return ``8x NVIDIA B200`` or ``7 of 8 GPUs: 7x NVIDIA B200``."""
    if not observed(host):
        return NO_STATE
    if graph.why:
        return f"unmeasured: {clean(graph.why)}"
    names = Counter(show(read(entry, "name")) for entry in items(read(host, "state", "gpus")))
    listed = sum(names.values())
    text = ", ".join(f"{count}x {name}" for name, count in names.items()) or "no GPU in NVML"
    expected = graph.expected
    return text if expected in (None, listed) else f"{listed} of {expected} GPUs: {text}"


def machine(host: object, graph: Topology) -> Pairs:
    """What is in the node, as a fact a line; power where a GPU is known to be capped."""
    cap = power.capped(StateView(read(host, "state"))) if observed(host) else ""
    return [
        ("GPUs", gpus_line(host, graph)),
        *([("power", f"capped at {cap}")] if cap else []),
        ("NVLink", links_line(graph)),
        ("fabric", fabric_line(graph)),
    ]


LAYOUT = ["replica", "GPUs", "NUMA node", "CPUs", "port"]


def endpoint(host: object, name: str) -> Pairs:
    """Where a live node takes requests and how to try it; nothing of any other node."""
    found = understood(document.ServedEndpoint, read(host, "endpoint"))
    if found is None:
        return []
    where = f", on {name} itself" if found.local else ""
    key = "; clients send the API key" if found.api_key else ""
    return [
        ("endpoint", f"{found.url}{where}; model {found.model}{key}"),
        ("try it", f'b200 ask {name} "Say hello."'),
    ]


def layout(host: object) -> list[list[str]]:
    """Where each replica is placed, and whether one process on CPUs stands for all of its GPUs."""
    rows = []
    for row in items(read(host, "layout")):
        replica, cpus, port = (show(read(row, key)) for key in ("replica", "cpus", "port"))
        gpus, nodes = (
            ",".join(map(show, items(read(row, key)))) or "none" for key in ("gpus", "numa_nodes")
        )
        mark = " (1 process)" if read(row, "processes") == 1 else ""
        rows.append([replica, gpus + mark, nodes, cpus, port])
    return rows


def links_line(graph: Topology) -> str:
    """Return ``144/144 links up``; GPUs whose links could not be read are counted apart."""
    if not graph.gpus:
        return "unmeasured: no GPU to read"
    up = sum(gpu.links.up or 0 for gpu in graph.gpus)
    total = sum(gpu.links.total for gpu in graph.gpus)
    silent = [gpu for gpu in graph.gpus if gpu.links.up is None or "unknown" in gpu.links.states]
    if len(silent) == len(graph.gpus):
        return "unmeasured: no GPU reported the state of its links"
    tail = f" ({len(silent)} GPU{'s' * (len(silent) > 1)} unmeasured)" if silent else ""
    return f"{up}/{total} links up{tail}"


def fabric_line(graph: Topology) -> str:
    """Return ``completed on 8 of 8 GPUs``, or how many GPUs are in which other state."""
    states = Counter(gpu.fabric.state for gpu in graph.gpus)
    if not states:
        return "unmeasured: no GPU to read"
    others = [f"{name} on {count}" for name, count in states.items() if name != COMPLETED]
    return ", ".join([f"{COMPLETED} on {states[COMPLETED]} of {len(graph.gpus)} GPUs", *others])


def numa_lines(host: object, graph: Topology) -> list[str]:
    """Return one line a NUMA node: ``node 0: GPU 0,1,2,3; CPUs 0-55,112-167``."""
    reading = read(host, "state", "numa")
    if not graph.numa:
        return [unread(reading, "no NUMA node listed") if observed(host) else NO_STATE]
    lines = []
    for node in graph.numa:
        gpus = ",".join(gpu.name.removeprefix("GPU ") for gpu in node.gpus)
        name = "unknown" if node.id is None else node.id
        lines.append(f"node {name}: {f'GPU {gpus}' if gpus else 'no GPU'}; CPUs {node.cpus}")
    return lines


def numa_short(graph: Topology) -> str:
    """Return the GPUs of each NUMA node in short: ``4+4``, ``2+2+0+2+2+0``."""
    return "+".join(str(len(node.gpus)) for node in graph.numa) or "unmeasured"


def facts_in_short(host: object) -> list[str]:
    """Return the node in five short facts, or why there are none; its state was vetted before."""
    if isinstance(known := read(host, "in_short", "facts"), list):
        return [show(fact) for fact in known]
    graph = outline(read(host, "state"), read(host, "expectation"))
    if not observed(host):
        return [gpus_line(host, graph)]
    completed = graph.gpus and all(gpu.fabric.state == COMPLETED for gpu in graph.gpus)
    return [
        gpus_line(host, graph).replace("NVIDIA ", ""),
        links_line(graph).replace(" links up", " links"),
        f"fabric {'ok' if completed else fabric_line(graph)}",
        f"NUMA {numa_short(graph)}",
        f"driver {show(read(host, 'state', 'nvml', 'driver_version'))}",
    ]


def versions(host: object) -> list[tuple[str, str]]:
    """Return the versions that decide how a node behaves, as (name, version or why not)."""
    found, state = latency.conditions_of(host), read(host, "state")
    engine = show(found.engine) if found else "unmeasured: no smoke test"
    if not observed(host):
        return [("driver", NO_STATE), ("engine", engine)]
    return [
        ("driver", show(read(state, "nvml", "driver_version"))),
        ("CUDA", show(read(state, "nvml", "cuda_driver_version"))),
        ("fabric manager", _package(state, "nvidia-fabricmanager", "nvidia-fabric-manager")),
        ("engine", engine),
        ("kernel module", show(read(state, "modules", "nvidia"), absent="not loaded")),
        ("nvlsm", _package(state, "nvlsm")),
        ("container toolkit", _package(state, "nvidia-container-toolkit")),
        ("VBIOS", _over_gpus(state, "vbios")),
        ("GSP firmware", _over_gpus(state, "gsp_firmware")),
        ("kernel", show(read(state, "host", "kernel"))),
        ("OS", show(read(state, "host", "os", "pretty"))),
    ]


def _package(state: object, *prefixes: str) -> str:
    """Return the version of the first installed package whose name starts so."""
    packages = read(state, "packages")
    if isinstance(packages, Unmeasured):
        return str(packages)
    named = [one for p in prefixes for name, one in mapping(packages).items() if name.startswith(p)]
    installed = next((one for one in named if one is not None), None)
    if installed is None:
        return "not installed" if named else "unmeasured: package was not looked up"
    return show(read(installed, "version"))


def _over_gpus(state: object, key: str) -> str:
    """Return the one value all GPUs share, or every value with its count."""
    values = Counter(show(read(gpu, key)) for gpu in items(read(state, "gpus")))
    if len(values) == 1:
        return next(iter(values))
    several = ", ".join(f"{value} on {count}" for value, count in values.items())
    return several or "unmeasured: no GPU to read"
