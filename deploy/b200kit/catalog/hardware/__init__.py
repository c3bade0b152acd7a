"""Expectations of each hardware as data: a value with unit, source, date, and how it is known.

`load` reads one file strictly: a figure without provenance is refused, because a threshold nobody
can trace is one nobody dares to change. Three top-level keys keep the files apart and short:

    same_as: {hgx-b200: [xid.actions, ...]}      figures that another file has, taken over by name
    not_applicable: {fabric.nvlsm: why, ...}     checks of what this hardware does not have
    gpus: {10de:26b9: {title, architecture, source, date, kind, figures: {memory.floor: 1, ...},
           same_as, not_applicable}}             one GPU of several, and what is otherwise for it
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from b200kit.catalog import shipped
from b200kit.catalog.hardware.facts import Hardware
from b200kit.sizing.gpu_model import GpuModel

SCHEMA = "b200kit/hardware/1"
DIRECTORY = Path(__file__).parent
KINDS = ("measured", "quoted", "inferred")
KEYS = {"value", "unit", "source", "date", "kind"}
# A process on a B200 sees 178.35 GiB, 0.2 % less than the floor of what NVML reports (inferred).
_VISIBLE = 0.998
TOP = {"schema", "name", "title", "expect", "same_as", "not_applicable", "gpus"}
ARCHITECTURES = ("Ampere", "Ada", "Hopper", "Blackwell")
GPU = {"title", "architecture", "source", "date", "kind", "figures", "same_as", "not_applicable"}


class HardwareError(ValueError):
    """A hardware name or file that cannot be used; the text says what to do."""


def names() -> list[str]:
    """Every known hardware."""
    return sorted(path.stem for path in DIRECTORY.glob("*.yaml"))


@cache
def _read(name: str) -> dict[str, Any]:
    if name not in names():
        raise HardwareError(f"unknown hardware {name!r}; known: {', '.join(names())}")
    path = DIRECTORY / f"{name}.yaml"
    try:
        document = shipped.read(path)
    except yaml.YAMLError as error:
        raise HardwareError(f"{path.name}: {' '.join(str(error).split())}") from error
    problems = list(_problems(document, name))
    if problems:
        raise HardwareError(f"{path.name}: {problems[0]}")
    return dict(document)


def load(name: str) -> dict[str, Any]:
    """The hardware of a name, whole; raises HardwareError when it is unknown or malformed."""
    document = _read(name)
    expect = _with_taken(name, document.get("same_as", {}), document["expect"])
    gpus = {pci: _gpu(name, entry, expect) for pci, entry in document.get("gpus", {}).items()}
    return {**document, "expect": expect, **({"gpus": gpus} if gpus else {})}


def _gpu(name: str, entry: dict[str, Any], expect: dict[str, Any]) -> dict[str, Any]:
    """What is otherwise for one GPU: figures in full, and checks that are not applicable to it."""
    known = {key: entry[key] for key in ("source", "date", "kind") if key in entry}
    figures = {
        key: {"value": value, "unit": expect[key]["unit"], **known}
        for key, value in entry.get("figures", {}).items()
    }
    return {
        "title": entry["title"],
        "expect": _with_taken(name, entry.get("same_as", {}), figures),
        "not_applicable": entry.get("not_applicable", {}),
    }


def _with_taken(name: str, same_as: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """These figures, and those that stand in other files."""
    expect = dict(own)
    for other, keys in same_as.items():
        for key in keys:
            expect[key] = _taken(name, other, key, expect)
    return expect


def _taken(name: str, other: str, key: str, have: dict[str, Any]) -> Any:
    """One figure of another file; taken from where it stands, never from one that took it too."""
    theirs = _read(other)["expect"]
    if key not in theirs:
        raise HardwareError(f"{name}.yaml: same_as: {other}.yaml has no {key} of its own")
    if key in have:
        raise HardwareError(f"{name}.yaml: same_as: {key} is there already")
    return theirs[key]


def machines() -> dict[str, Hardware]:
    """What decides whether an inventory is possible, of every known hardware by its name."""
    return {name: _machine(name) for name in names()}


@cache
def _gpu_models() -> dict[str, GpuModel]:
    """Every GPU of the catalogue by its PCI id: one by itself can be any of them."""
    gpus = _read("single")["gpus"]
    return {pci: GpuModel(gpu["title"], gpu["architecture"]) for pci, gpu in gpus.items()}


def gpu_name(pci: str) -> str:
    """A GPU as people call it, with its PCI id; of one that is not known, the id alone."""
    known = _gpu_models().get(pci)
    return f"{known.title} ({pci})" if known else pci


def _machine(name: str) -> Hardware:
    expect = load(name)["expect"]
    # "single" is for any GPU, and its floor that of the smallest: no model is compared with it.
    one_kind = expect["gpu_count"]["value"] > 1
    return Hardware(
        name=name,
        gpu_count=expect["gpu_count"]["value"],
        minimum_driver=expect["minimum_driver"]["value"],
        gpu_bytes=int((expect["memory.floor"]["value"] << 20) * _VISIBLE) if one_kind else 0,
        gpus={pci: _gpu_models()[pci] for pci in expect["pci.ids"]["value"]},
        virtual=expect["machine.virtual"]["value"] if "machine.virtual" in expect else None,
        power_w=tuple(expect["power.range"]["value"]) if "power.range" in expect else None,
    )


def _problems(document: Any, name: str) -> list[str]:
    """What is wrong with a parsed file, in words."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return [f"schema must be {SCHEMA}"]
    if document.get("name") != name:
        return [f"name must be {name}"]
    unknown = set(document) - TOP
    if unknown:
        return [f"unknown key {sorted(unknown)[0]!r}"]
    entries = document.get("expect")
    if not isinstance(entries, dict) or not entries:
        return ["expect must be a mapping with entries"]
    if not _lists(document.get("same_as", {})):
        return ["same_as must map another file's name to a list of its expectations"]
    if not _reasons(document.get("not_applicable", {})):
        return ["not_applicable must map the id of a check to the reason"]
    return [
        *(problem for key, entry in entries.items() for problem in _entry_problems(key, entry)),
        *(problem for pci, gpu in document.get("gpus", {}).items()
          for problem in _gpu_problems(pci, gpu, document)),
    ]  # fmt: skip


def _gpu_problems(pci: str, gpu: Any, document: dict[str, Any]) -> list[str]:
    """What is wrong with what is otherwise for one GPU."""
    expect = document["expect"]
    names = {*expect, *(key for keys in document.get("same_as", {}).values() for key in keys)}
    if not isinstance(gpu, dict) or not set(gpu) <= GPU or not gpu.get("title"):
        return [f"gpus: {pci} must have a title, and no keys but {', '.join(sorted(GPU))}"]
    if gpu.get("architecture") not in ARCHITECTURES:
        return [f"gpus: {pci}: architecture must be one of {', '.join(ARCHITECTURES)}"]
    if pci not in expect["pci.ids"]["value"]:
        return [f"gpus: {pci} is not among pci.ids"]
    if not _lists(gpu.get("same_as", {})) or not _reasons(gpu.get("not_applicable", {})):
        return [f"gpus: {pci}: same_as must list figures, not_applicable give reasons"]
    figures = gpu.get("figures", {})
    if unknown := sorted(set(figures) - names):
        return [f"gpus: {pci}: no figure {unknown[0]} holds for all"]
    known = {key: gpu[key] for key in ("source", "date", "kind") if key in gpu}
    return [
        problem
        for key, value in figures.items()
        for problem in _entry_problems(f"gpus: {pci} {key}", {"value": value, "unit": "", **known})
    ]


def _entry_problems(key: str, entry: Any) -> list[str]:
    """What is wrong with one expectation."""
    if not isinstance(entry, dict) or set(entry) != KEYS:
        return [f"{key} must have exactly the keys {', '.join(sorted(KEYS))}"]
    if entry["kind"] not in KINDS:
        return [f"{key}: kind must be one of {', '.join(KINDS)}"]
    blank = [name for name in ("source", "date") if not str(entry[name] or "").strip()]
    return [f"{key}: {name} is empty" for name in blank]


def _lists(table: Any) -> bool:
    """Whether this maps text to lists of text."""
    return isinstance(table, dict) and all(
        isinstance(name, str) and isinstance(keys, list) and all(isinstance(k, str) for k in keys)
        for name, keys in table.items()
    )


def _reasons(table: Any) -> bool:
    """Whether this maps text to text that is not blank."""
    return isinstance(table, dict) and all(
        isinstance(name, str) and isinstance(why, str) and bool(why.strip())
        for name, why in table.items()
    )
