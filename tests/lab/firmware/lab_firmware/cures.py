"""Faults that something mends: which event takes which fault of the scenario's `later` away.

What happens to the node is kept on its disk, a line an event: what, in which boot, when. A fault
lasts from its beginning to the first event after it that is at least its `cured_by`.

    cures.py inject     the scenario on the disk is new: its faults begin now
    cures.py EVENT      restart (the fabric manager started) or gpu-reset (nvidia-smi -r)
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import nvml
from .modprobe import SCENARIO

EVENTS = Path("/var/lib/b200-lab/events")
WARM = Path("/var/lib/b200-lab/warm-boot")
"""Made by the host's supervisor when a boot follows a reboot, not a loss of power."""
ACTS = Path("/etc/b200-lab/acts")
"""What was done to the node from outside, one word a line (tests/lab/seed.py, note_act)."""
PRESENT = nvml.RUN / "boot.json"
#: What cures what: each also what stands before it. The first two begin a fault.
ORDER = (
    *("power-on", "inject"),
    *("restart", "gpu-reset", "reboot", "power-cycle", "reimage", "nothing"),
)
Json = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """What happened to the node: in which boot, counted from 1, and when, seconds."""

    what: str
    boot: int
    at: float


def read(path: Path = EVENTS) -> list[Event]:
    """All events since the disk was made, or since faults were injected."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    words = (line.split() for line in lines)
    return [Event(what, int(boot), float(at)) for what, boot, at in words]


def record(event: Event, path: Path = EVENTS) -> None:
    """Add one; faults that are injected make all before them void."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w" if event.what == "inject" else "a", encoding="utf-8") as file:
        file.write(f"{event.what} {event.boot} {event.at}\n")


def boot_kind(events: Sequence[Event], warm: bool) -> str:
    """What a boot is to the faults: the first of a disk begins them."""
    if not events:
        return "power-on"
    return "reboot" if warm else "power-cycle"


def at_boot(number: int, now: float) -> list[Event]:
    """Record this boot; returns all events with it."""
    message = ACTS.read_text(encoding="utf-8").split() if ACTS.exists() else []
    if message and not read():
        # A new disk: what it is cured of began with the one before.
        record(Event("power-on", number, 0.0))
    for what in (word for word in message if word in ORDER):
        record(Event(what, number, now))
    record(Event(boot_kind(read(), WARM.exists()), number, now))
    for path in (ACTS, WARM):
        path.unlink(missing_ok=True)
    return read()


def is_cured(change: Mapping[str, Any], events: Sequence[Event]) -> bool:
    """Whether a fault is over."""
    least = ORDER.index(change.get("cured_by", "nothing"))
    begun = next((n for n, event in enumerate(events) if event.boot >= change["boot"]), None)
    if begun is None or least == ORDER.index("nothing"):
        return False
    since = events[begun].at + change["after_s"]
    return any(ORDER.index(e.what) >= least and e.at >= since for e in events[begun + 1 :])


def keep_boot(driver: str | None, parameters: Mapping[str, str], number: int, now: float) -> None:
    """What this boot came up with, for faults that come and go while it lasts."""
    kept = {"driver": driver, "parameters": dict(parameters), "number": number, "at": now}
    PRESENT.write_text(json.dumps(kept), encoding="utf-8")


def show(scenario: Mapping[str, Any], boot: Json) -> None:
    """Let NVML and the daemons' stand-ins say what holds now."""
    text = nvml.conf(
        scenario, boot["driver"], boot["parameters"], boot["number"], boot["at"],
        read(), time.time(),
    )  # fmt: skip
    fresh = nvml.RUN / "nvml.conf.new"
    fresh.write_text(text, encoding="utf-8")
    fresh.rename(nvml.RUN / "nvml.conf")


def main(what: str) -> int:
    """See the module."""
    scenario = json.loads(SCENARIO.read_text(encoding="utf-8"))
    boot = json.loads(PRESENT.read_text(encoding="utf-8"))
    now = time.time()
    record(Event(what, boot["number"], now))
    if what == "inject":
        # The faults begin with the event: what the scenario says of seconds counts from here.
        boot["at"] = now
        PRESENT.write_text(json.dumps(boot), encoding="utf-8")
    show(scenario, boot)
    units = [unit for change in scenario["later"] for unit in change.get("stops", [])]
    if what == "inject" and units:
        return subprocess.run(["systemctl", "stop", *units], check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
