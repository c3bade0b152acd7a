"""Clients of a fleet in the lab, and the keys by which its nodes have the endpoints they use."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b200kit.node.client.percentiles import percentile
from tests.e2e.driving import ROOT
from tests.lab.paths import lab_paths
from tests.lab.state import read_state

# As many as keep one open at any time: each more takes CPUs of this machine from the work.
STREAMS, TOKENS = 2, 60
PORT = 8100
LIMITS = {"max_out": 2, "watch_s": 2, "share_percent": 10}
FLEET: dict[str, Any] = {
    "fleet": {"port": PORT},
    "gateway_bind": "0.0.0.0",
    "gateway": {"tls": "off"},
    "rollout": LIMITS,
    # As a site has it: a node returns by the proof that its looks issue.
    "watchdog": {
        "health_check_s": 10,
        "health_check_deadline_s": 60,
        "deadline_s": 120,
        "stall_s": 600,
    },
    "proof": {"issue": "on"},
}


def words(**changes: Any) -> list[str]:
    """The inventory's keys of such a fleet and *changes*, as arguments."""
    data = {**FLEET, **changes}
    given = {k: v if isinstance(v, str) else json.dumps(v) for k, v in data.items()}
    return [word for key, value in given.items() for word in ("--data", f"{key}={value}")]


class Load:
    """Clients of the fleet, until stopped."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.result = folder / "load.json"
        state = read_state(lab_paths())
        urls = [f"http://{host['address']}:{PORT}" for host in state["hosts"]]
        model, key = state["model"]["name"], str(lab_paths().api_key)
        load = [str(STREAMS), str(TOKENS), str(self.result)]
        program = [sys.executable, "-m", "tests.e2e.tools.fleet_streams", model, key, *load, *urls]
        self.process = subprocess.Popen(program, cwd=ROOT, stdin=subprocess.DEVNULL)
        self.wait_for_more()

    def wait_for_more(self, streams: int = 4 * STREAMS) -> None:
        """Return when so many more streams have ended."""
        before = self._count()
        until(lambda: self._count() >= before + streams)

    def _count(self) -> int:
        path = self.result.with_suffix(".count")
        return int(path.read_text() or 0) if path.exists() else 0

    def end(self) -> Seen:
        """Everything the clients saw."""
        self.result.with_suffix(".stop").touch()
        assert self.process.wait(120) == 0
        found = json.loads(self.result.read_text())
        return Seen(found["streams"], found["serving"])


@dataclass(frozen=True)
class Seen:
    """The streams, and how many nodes would take a request at each look."""

    streams: list[dict[str, Any]]
    serving: list[tuple[float, int]]

    @property
    def lost(self) -> list[dict[str, Any]]:
        """Streams without their whole answer."""
        return [stream for stream in self.streams if stream["error"]]

    @property
    def least(self) -> int:
        """The fewest nodes that served at any look."""
        return min(count for _, count in self.serving)

    def figures(self, what: str, began: float, ended: float) -> str:
        """P99 of the time to the first token and of the whole, before, during and after."""
        spans = {"before": (0.0, began), "during": (began, ended), "after": (ended, time.time())}
        found = []
        for name, (start, end) in spans.items():
            those = [s for s in self.streams if start <= s["sent"] < end and not s["error"]]
            ttft = percentile([s["ttft"] for s in those], 99)
            whole = percentile([s["ended"] - s["sent"] for s in those], 99)
            found.append(f"{name} n={len(those)} P99 TTFT {ttft:.3f} s, E2E {whole:.3f} s")
        nodes = len(read_state(lab_paths())["hosts"])
        looks = f"{len(self.serving)} looks, at least {self.least} of {nodes} served"
        return f"{what}: {len(self.lost)} of {len(self.streams)} lost; {'; '.join(found)}; {looks}"


@contextmanager
def under_load(folder: Path, what: str) -> Iterator[list[Seen]]:
    """Streams meanwhile; what the clients saw is in the list afterwards."""
    load, found = Load(folder), list[Seen]()
    began = time.time()
    try:
        yield found
    finally:
        ended = time.time()
        load.wait_for_more()
        found.append(load.end())
        print(found[0].figures(what, began, ended))


def until(there: Callable[[], object], seconds: float = 900) -> None:
    """Return when it is so."""
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end
        time.sleep(0.1)
