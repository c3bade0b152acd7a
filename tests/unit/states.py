"""Node states for tests: the recorded ones, and what they are judged by."""

from __future__ import annotations

import json
import pickle
from functools import cache
from pathlib import Path
from typing import Any

from b200kit.catalog import hardware, load
from b200kit.node.host import settings_table
from b200kit.node.state.expectation import PATH
from b200kit.records import examples

STATES = Path(__file__).parents[1] / "states"
NAMES = examples.names()
State = dict[str, Any]


@cache
def _text(name: str) -> str:
    return json.dumps(examples.load(name).state)


def recorded(name: str) -> State:
    """A fresh copy of a recorded state."""
    state: State = json.loads(_text(name))
    return state


def file(name: str, folder: Path) -> str:
    """The path of a file in a folder with a recorded state."""
    path = folder / f"{name}.json"
    path.write_text(_text(name), encoding="utf-8")
    return str(path)


def healthy() -> State:
    """A fresh copy of the healthy HGX B200."""
    return recorded("healthy-hgx-b200")


def bare() -> State:
    """The healthy node before anything was installed: the kernel sees all of its hardware."""
    state = healthy()
    for key in ("nvml", "gpus", "p2p"):
        state[key] = {"unmeasured": "Driver Not Installed (12)"}
    state["modules"] = dict.fromkeys(state["modules"])
    state["packages"] = dict.fromkeys(state["packages"])
    absent = {"load": "not-found", "active": "inactive", "sub": "dead", "main_pid": 0}
    for unit in state["units"].values():
        unit |= absent
    for gpu in state["pci"]["gpus"]:
        gpu["driver"] = None
    state["files"] = {PATH: None}
    state["readiness"] = {"virtualization": "none", "driver": {"files": {}, "runfile": False}}
    return state


def ready(state: State) -> State:
    """The same state with what the bring-up reads and no recorded one has, all as it should be."""
    state["fabric_manager"]["nvlsm_installed"] = True
    for nic in state["pci"]["nics"]:
        nic["vital_product_data"] = True
        nic["ports"] = [{**port, "sm_disabled": False} for port in nic["ports"]]
    return state


def expectation(name: str = "hgx-b200") -> State:
    """What the healthy node is judged by: its own driver set, held, and no waiver."""
    document: State = pickle.loads(_expectation(name))
    return document


@cache
def _expectation(name: str) -> bytes:
    """The document of `expectation`, made once and copied fast."""
    packages = healthy()["packages"]
    document = {
        "schema": "b200kit/expect/1",
        "hardware": hardware.load(name),
        "driver": {
            "version": "580.105.08",
            "packages": {name: entry["version"] for name, entry in packages.items()},
        },
        "gpu_count": 8,
        "services": ["nvidia-persistenced.service"],
        "waivers": [],
        "today": "2026-11-21",
        "settings": settings_table.expected(load.load().settings, ()),
    }
    return pickle.dumps(document)
