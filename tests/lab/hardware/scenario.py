"""Scenario files: a simulated node as data, read, merged, checked and rendered for one machine.

`render` is what the lab calls; the dict it returns is written to the guest as
/etc/b200-lab/scenario.json and read there by the firmware (tests/lab/firmware). docs/lab.md
says how to write a scenario by hand.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.lab.hardware import cpu_scale, nvml_conf, scenario_sense
from tests.lab.hardware.scenario_merge import deep_merge, extend, merge_items
from tests.lab.hardware.scenario_shape import BRIDGE, SCENARIO, ScenarioError, check, did_you_mean

DIRECTORY = Path(__file__).resolve().parents[2] / "scenarios"
SCHEMA = "b200kit/lab-scenario/1"
#: The same documents; libyaml reads them ten times as fast where PyYAML has it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Keys that the node gets as they are written.
COPIED = (
    *("description", "source", "kernel_cmdline", "kernel", "nics"),
    *("fabric", "fabric_manager", "persistence_daemon", "nvlsm", "modules", "packages", "image"),
)


def names() -> list[str]:
    """Names of the scenarios that come with the toolkit, sorted."""
    return sorted(path.stem for path in DIRECTORY.glob("*.yaml"))


def _find(name_or_path: str, beside: Path) -> Path:
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
        if not path.is_file():
            raise ScenarioError(f"scenario file {name_or_path} does not exist")
        return path
    for directory in (beside, DIRECTORY):
        path = directory / f"{name_or_path}.yaml"
        if path.is_file():
            return path
    hint = did_you_mean(name_or_path, names()) or f" (there are: {', '.join(names())})"
    raise ScenarioError(f"unknown scenario '{name_or_path}'{hint}")


def _parsed(text: str) -> Any:
    try:
        return yaml.load(text, _LOADER)
    except yaml.YAMLError:
        return yaml.safe_load(text)  # its complaint shows the place in the text


def _read(path: Path) -> dict[str, Any]:
    try:
        document = _parsed(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        reason = " ".join(str(problem).split())
        raise ScenarioError(f"{path.name}: cannot be read as YAML: {reason}") from problem
    if not isinstance(document, dict):
        raise ScenarioError(f"{path.name}: expected a map at the top, got {document!r}")
    for key in document:
        if key not in SCENARIO:
            raise ScenarioError(
                f"{path.name}: unknown key '{key}'{did_you_mean(str(key), SCENARIO)}"
            )
    return document


def load(
    name_or_path: str, beside: Path = DIRECTORY, seen: tuple[Path, ...] = ()
) -> dict[str, Any]:
    """The scenario as written with every `extends` resolved and its keys and types checked."""
    path = _find(name_or_path, beside).resolve()
    if path in seen:
        raise ScenarioError(f"{path.name}: extends itself by way of {seen[-1].name}")
    written = _read(path)
    if "extends" in written:
        base = load(str(written.pop("extends")), path.parent, (*seen, path))
        written = extend(base, written, path.name)
    check(written, SCENARIO, path.name)
    scenario_sense.refuse(scenario_sense.left_out(written), path.name)
    return written


def _resolve_gpus(
    written: dict[str, Any], cpus: dict[int, str], where: str
) -> list[dict[str, Any]]:
    gpus = [deep_merge(written["gpu"], gpu) for gpu in written["gpus"]]
    scenario_sense.refuse(scenario_sense.gpus_complaints(gpus), where)
    for index, gpu in enumerate(gpus):
        gpu |= {"index": index, "cpus": cpus.get(gpu["numa_node"], "")}
    return gpus


def _numa_nodes(written: dict[str, Any], cpus_online: int, where: str) -> list[dict[str, Any]]:
    nodes = written["numa_nodes"]
    lists = [node["cpus"] for node in nodes]
    try:
        real = cpu_scale.scale(lists, cpus_online) if written["cpus"] == "scaled" else lists
    except ValueError as problem:
        raise ScenarioError(f"{where}: numa_nodes: not a CPU list: {problem}") from problem
    return [
        {**node, "cpus": cpus, "cpus_written": node["cpus"]}
        for node, cpus in zip(nodes, real, strict=True)
    ]


def _bridges(
    written: dict[str, Any], gpus: list[dict[str, Any]], where: str
) -> dict[str, dict[str, Any]]:
    """Every bridge above a GPU or NIC with all it says, by address."""
    devices = (*gpus, *written["nics"])
    above = dict.fromkeys(at for device in devices for at in device.get("bridges", []))
    for address, change in written["bridges"].items():
        if address not in above:
            raise ScenarioError(f"{where}: bridges: no GPU or NIC is below {address!r}")
        check(change, BRIDGE, f"{where}: bridges.{address}")
    return {at: deep_merge(written["bridge"], written["bridges"].get(at, {})) for at in above}


def _xids(written: dict[str, Any], where: str) -> list[dict[str, Any]]:
    lines = []
    for xid in written["xids"]:
        if xid["gpu"] >= len(written["gpus"]):
            raise ScenarioError(f"{where}: xids: there is no GPU {xid['gpu']}")
        place = written["gpus"][xid["gpu"]]["pci_address"].rsplit(".", 1)[0]
        line = f"NVRM: Xid (PCI:{place}): {xid['code']}, {xid['text']}"
        lines.append({"after_s": xid.get("after_s", 0), "line": line})
    return lines


def _later(gpus: list[dict[str, Any]], written: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Each later change as the NVML lines it changes, derived from the GPUs as they are at boot."""
    now, changes = nvml_conf.conf(gpus, written["hang"]), []
    for number, change in enumerate(written["later"]):
        place = f"{where}: later[{number}].gpus"
        changed = merge_items(gpus, change.get("gpus", {}), None, place)
        if len(changed) != len(gpus):
            raise ScenarioError(
                f"{place}: a GPU cannot be taken out while the node runs; use lost: true"
            )
        check(
            [{k: v for k, v in gpu.items() if k not in ("index", "cpus")} for gpu in changed],
            SCENARIO["gpus"],
            place,
        )
        scenario_sense.refuse(scenario_sense.gpus_complaints(changed), where)
        facts = _one_by_one(nvml_conf.conf(changed, written["hang"]), len(gpus))
        old = _one_by_one(now, len(gpus))
        nvml = {key: value for key, value in facts.items() if old.get(key) != value}
        if "fabric_manager" in change:
            nvml["fabric.manager"] = change["fabric_manager"]
        when = {"boot": change.get("boot", 1), "after_s": change.get("after_s", 0)}
        kept = {key: change[key] for key in ("stops", "cured_by") if key in change}
        changes.append({**when, "nvml": nvml, **kept})
    return changes


def _one_by_one(conf: dict[str, str], count: int) -> dict[str, str]:
    """`conf` with each `gpu.*.KEY` written out for every GPU."""
    spread: dict[str, str] = {}
    for key, value in conf.items():
        if key.startswith("gpu.*."):
            spread |= {f"gpu.{index}.{key[6:]}": value for index in range(count)}
        else:
            spread[key] = value
    return spread


def render(name_or_path: str, cpus_online: int) -> dict[str, Any]:
    """The scenario resolved for a machine with `cpus_online` CPUs, ready for json.dumps.

    Raises ScenarioError with one line when the scenario is unknown or says something impossible.
    """
    written = load(name_or_path)
    where = Path(name_or_path).stem
    nodes = _numa_nodes(written, cpus_online, where)
    gpus = _resolve_gpus(written, {node["id"]: node["cpus"] for node in nodes}, where)
    rendered = {
        "schema": SCHEMA,
        "name": where,
        **{key: written[key] for key in COPIED},
        "numa_nodes": nodes,
        "numa_distance": written.get("numa_distance"),
        "gpus": gpus,
        "bridges": _bridges(written, gpus, where),
        "xids": _xids(written, where),
        "nvml": nvml_conf.conf(gpus, written["hang"]),
        "later": _later(gpus, written, where),
    }
    scenario_sense.refuse(scenario_sense.complaints(rendered), where)
    return rendered


if __name__ == "__main__":
    json.dump(render(sys.argv[1], int(sys.argv[2])), sys.stdout, indent=1)
