"""What the NVML stand-in says, as one flat map: `gpu.2.serial` -> `1650000000003`.

The C shim (tests/lab/shim) reads these as `key=value` lines. `gpu.*.KEY` holds for every GPU,
`gpu.N.KEY` for one; the value `!3` makes the call that asks for it return NVML error 3. Pure: a
resolved scenario in, the map out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.lab.hardware.scenario_shape import (
    FABRIC_HEALTH,
    FABRIC_STATES,
    FEC_HISTORY,
    LINK_COUNTERS,
)

#: Keys that are copied as they are, with the name the shim knows them by.
PLAIN = {
    "uuid": "uuid",
    "serial": "serial",
    "module_id": "module_id",
    "numa_node": "numa_node",
    "name": "name",
    "board_part_number": "board_part_number",
    "vbios": "vbios",
    "inforom": "inforom",
    "inforom_valid": "inforom_valid",
    "gsp_enabled": "gsp_enabled",
    "bar1_total_mib": "bar1.total_mib",
    "clocks_event_reasons": "clocks.event_reasons",
    "mig": "mig",
    "mig_pending": "mig_pending",
    "lost": "lost",
}
GROUPS = ("memory", "power", "clocks", "pcie", "ecc", "sram", "remap", "repair")

#: BER "no errors" (mantissa 15, exponent 255): what a link without errors reports.
NO_BIT_ERRORS = 0xFFF

#: What the links that a `{link: number}` map does not name say, as on a healthy B200.
SPEED_MBPS, VERSION, TO_A_SWITCH, NO_CORRECTIONS = 53125, 7, 2, [0] * 16


def _word(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _flat(name: str, group: Mapping[str, Any]) -> dict[str, str]:
    """`remap: {banks: {max: 1}}` as `remap.banks.max` -> `1`."""
    said: dict[str, str] = {}
    for key, value in group.items():
        place = f"{name}.{key}"
        said |= _flat(place, value) if isinstance(value, Mapping) else {place: _word(value)}
    return said


def down_links(links: Mapping[str, Any]) -> list[int]:
    """Numbers of the links that are down, from `down: none | all | [numbers]`."""
    if links["down"] == "all":
        return list(range(links["count"]))
    return [] if links["down"] == "none" else list(links["down"])


def _fabric(fabric: Mapping[str, Any]) -> dict[str, str]:
    return {
        "fabric.state": str(FABRIC_STATES[fabric["state"]]),
        "fabric.status": str(fabric["status"]),
        "fabric.clique_id": str(fabric["clique_id"]),
        "fabric.cluster_uuid": fabric["cluster_uuid"].replace("-", ""),
        "fabric.health_summary": str(FABRIC_HEALTH[fabric["health_summary"]]),
        "fabric.health_mask": str(fabric["health_mask"]),
    }


def _counter(field: int, value: object) -> dict[str, str]:
    """A counter: one number for all links, or a map from link to number."""
    if isinstance(value, Mapping):
        return {f"field.{field}.{link}": str(count) for link, count in value.items()}
    return {f"field.{field}": str(value)}


def _each(value: object, default: object) -> tuple[object, Mapping[int, Any]]:
    """What links say in common, and what single links say instead."""
    return (default, value) if isinstance(value, Mapping) else (value, {})


def _fec_history(value: object) -> dict[str, str]:
    """The 16 bins, of all links and of single ones."""
    common, single = _each(value, NO_CORRECTIONS)
    said: dict[str, str] = {}
    for link, bins in [("", common), *((f".{link}", bins) for link, bins in single.items())]:
        assert isinstance(bins, list)
        said |= {
            f"field.{field}{link}": str(count)
            for field, count in zip(FEC_HISTORY, bins, strict=True)
        }
    return said


def _links(links: Mapping[str, Any]) -> dict[str, str]:
    down = down_links(links)
    speed, slow = _each(links["speed_mbps"], SPEED_MBPS)
    version, versions = _each(links["version"], VERSION)
    remote, remotes = _each(links["remote_type"], TO_A_SWITCH)
    said = {
        "links.count": str(links["count"]),
        "links.version": str(version),
        "links.remote_type": str(remote),
        "field.164": str(speed),
        "field.90": str(speed),
        "field.91": str(links["count"]),
        "field.147": str(links["count"] - len(down)),
        **{f"links.{link}.state": _word(link not in down) for link in range(links["count"])},
        **{f"field.164.{link}": str(number) for link, number in slow.items()},
        **{f"links.{link}.version": str(number) for link, number in versions.items()},
        **{f"links.{link}.remote_type": str(number) for link, number in remotes.items()},
        **_fec_history(links["fec_history"]),
    }
    for name, field in LINK_COUNTERS.items():
        default = NO_BIT_ERRORS if name.endswith("_ber") else 0
        said[f"field.{field}"] = str(default)
        said |= _counter(field, links["counters"].get(name, default))
    return said


def _temperature(temperature: Mapping[str, int]) -> dict[str, str]:
    return {
        "temperature.gpu_c": str(temperature["gpu_c"]),
        "temperature.margin_c": str(temperature["margin_c"]),
        "field.82": str(temperature["memory_c"]),
        "field.193": str(temperature["shutdown_margin_c"]),
        "field.194": str(temperature["slowdown_margin_c"]),
        "field.195": "0",
        "field.196": "0",
    }


def gpu_facts(gpu: Mapping[str, Any]) -> dict[str, str]:
    """All that one GPU says, keyed without the `gpu.N.` in front."""
    said = {name: _word(gpu[key]) for key, name in PLAIN.items()}
    for group in GROUPS:
        said |= _flat(group, gpu[group])
    major, minor = gpu["compute_capability"]
    domain, rest = gpu["pci_address"].split(":", 1)
    said |= {
        "cc.major": str(major),
        "cc.minor": str(minor),
        "pci.bus_id": f"{domain:0>8}:{rest}".upper(),
        "pci.device_id": f"0x{gpu['device_id']}10de",
        "pci.subsystem_id": f"0x{gpu['subsystem_id']}10de",
        "cpus": gpu["cpus"],
        "field.94": str(gpu["pcie"]["replays"]),
        "field.230": str(gpu["recovery_action"]),
    }
    said |= _fabric(gpu["fabric"]) | _links(gpu["links"]) | _temperature(gpu["temperature"])
    said |= _flat("p2p", gpu["p2p"]) | _flat("refuse", gpu["refuse"])
    return said | {f"hang.{function}": "1" for function in gpu["hang"]}


def conf(gpus: list[dict[str, Any]], hang: list[str]) -> dict[str, str]:
    """The whole map for these GPUs; what all of them say alike is written once under `gpu.*`."""
    facts = [gpu_facts(gpu) for gpu in gpus]
    common = set.intersection(*(set(fact.items()) for fact in facts)) if facts else set()
    said = {f"gpu.*.{key}": value for key, value in sorted(common)}
    for index, fact in enumerate(facts):
        said |= {
            f"gpu.{index}.{key}": value for key, value in fact.items() if (key, value) not in common
        }
    return {"gpu.count": str(len(gpus)), **said} | {f"hang.{function}": "1" for function in hang}
