"""Node states for tests: the recorded ones, and faults applied to the healthy one.

A fault is a function that spoils a state, and where it must an expectation, in place. The faults
themselves are in tests/unit/faults.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deploy import hardware
from deploy.core.verdict import Action

STATES = Path(__file__).parents[1] / "states"
State = dict[str, Any]
Spoil = Callable[[State, State], None]


@cache
def _text(name: str) -> str:
    return (STATES / f"{name}.json").read_text(encoding="utf-8")


def recorded(name: str) -> State:
    """A fresh copy of a recorded state."""
    state: State = json.loads(_text(name))
    return state


def healthy() -> State:
    """A fresh copy of the healthy HGX B200."""
    return recorded("healthy-hgx-b200")


def expectation(name: str = "hgx-b200") -> State:
    """What the healthy node is judged by: its own driver set, held, and no waiver."""
    packages = healthy()["packages"]
    return {
        "schema": "b200kit/expect/1",
        "hardware": deepcopy(hardware.load(name)),
        "driver": {
            "version": "580.105.08",
            "packages": {name: entry["version"] for name, entry in packages.items()},
        },
        "gpu_count": 8,
        "services": ["nvidia-persistenced.service"],
        "waivers": [],
        "today": "2026-11-21",
    }


@dataclass(frozen=True)
class Fault:
    """Something wrong with a node, the check that must catch it, and what it must ask for."""

    check: str
    name: str
    spoil: Spoil
    action: Action
    says: str = ""

    @property
    def id(self) -> str:
        """Name in test reports."""
        return f"{self.check}: {self.name}"

    def applied(self) -> tuple[State, State]:
        """Expectation and spoiled state."""
        expect, state = expectation(), healthy()
        self.spoil(state, expect)
        return expect, state


def put(value: object, *keys: str | int) -> Spoil:
    """A fault that is one other value in the state."""

    def spoil(state: State, expect: State) -> None:
        del expect
        place: Any = state
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return spoil


def every_gpu(value: object, key: str) -> Spoil:
    """A fault that all GPUs share."""

    def spoil(state: State, expect: State) -> None:
        del expect
        for gpu in state["gpus"]:
            gpu[key] = value

    return spoil


def drop(*keys: str | int) -> Spoil:
    """A fault that is something not there."""

    def spoil(state: State, expect: State) -> None:
        del expect
        place: Any = state
        for key in keys[:-1]:
            place = place[key]
        del place[keys[-1]]

    return spoil


def any_driver(then: Spoil) -> Spoil:
    """The same fault on a node where any one driver version will do."""

    def spoil(state: State, expect: State) -> None:
        expect["driver"] = None
        then(state, expect)

    return spoil


def old_driver(state: State, expect: State) -> None:
    """A driver from before this hardware, consistent in all its parts."""
    del expect
    state["nvml"]["driver_version"] = state["modules"]["nvidia"] = "560.35.03"
    for gpu in state["gpus"]:
        gpu["gsp_firmware"] = "560.35.03"
    for name in ("nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm"):
        state["packages"][name]["version"] = "560.35.03-1"


def another_driver_wanted(state: State, expect: State) -> None:
    """The inventory asks for another driver than the one that runs."""
    del state
    expect["driver"]["version"] = "580.126.20"


def gpu_without_nvlink(state: State, expect: State) -> None:
    """GPU 2 is off NVLink, as in vllm-project/vllm#16336, as far as its links show it."""
    del expect
    for link in state["gpus"][2]["links"]:
        link.update(state=0, speed_mbps=0)


def no_nvml(reason: str) -> Spoil:
    """NVML told nothing."""

    def spoil(state: State, expect: State) -> None:
        del expect
        state.update({key: {"unmeasured": reason} for key in ("nvml", "gpus", "p2p")})

    return spoil


def xid(code: int, text: str, address: str = "0000:96:00.0") -> dict[str, Any]:
    """A kernel log entry."""
    return {"pci_address": address, "code": code, "text": text}
