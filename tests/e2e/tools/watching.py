"""A node that is watched while it serves: who is in the gateway, and what was said of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tests.lab as lab
from tests.e2e.driving import on
from tests.e2e.tools import agent_file

PROGRAM, SERVING = "/usr/local/lib/b200kit/node.pyz", "/etc/b200kit/serving.json"
_STREAMS = Path(__file__).with_name("streams.py")
_STATUS = f"""
import sys
sys.path.insert(0, "{PROGRAM}")
from b200kit.node.serving.gateway import haproxy
print("\\n".join(f"{{s.name}} {{s.status}}" for s in haproxy.servers()))
"""


@dataclass
class Watched:
    """A lab node with two replicas."""

    name: str
    replicas: tuple[int, ...] = (0, 1)
    _uuids: list[str] = field(default_factory=list)

    def in_gateway(self) -> dict[int, str]:
        """Replica to its status, as HAProxy has it; empty while HAProxy does not answer."""
        done = lab.run(self.name, ["python3", "-I", "-c", _STATUS])
        found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
        return {n: found[f"vllm{n}"] for n in self.replicas if f"vllm{n}" in found}

    def out(self) -> set[int]:
        """Replicas that get no new requests; all where HAProxy does not answer."""
        up = {n for n, status in self.in_gateway().items() if status == "UP"}
        return set(self.replicas) - up

    def until(self, there: Callable[[], bool], seconds: float = 180) -> float:
        """Seconds until it is so."""
        began = time.monotonic()
        while not there():
            assert time.monotonic() < began + seconds, self.said()
        return time.monotonic() - began

    def said(self, since: str = "") -> str:
        """What watch and watchdog said, after a cursor of the journal.

        With a filter journalctl 252 skips the first line of it, so the filter is here.
        """
        after = f"--after-cursor='{since}'" if since else "-n 200"
        lines = on(self.name, f"journalctl -o json --no-pager {after}").splitlines()
        entries = [json.loads(line) for line in lines]
        units = ("b200-agent.service",)
        return "\n".join(
            str(entry["MESSAGE"])
            for entry in entries
            if entry.get("_SYSTEMD_UNIT") in units and isinstance(entry.get("MESSAGE"), str)
        )

    def concerned(self, gpu: int | None) -> set[int]:
        """The replicas with a GPU; all for None."""
        if gpu is None:
            return set(self.replicas)
        document: dict[str, Any] = json.loads(on(self.name, f"cat {SERVING}"))
        if not self._uuids:
            seen = json.loads(on(self.name, f"python3 -I {PROGRAM} observe"))
            self._uuids = [one["uuid"] for one in seen["gpus"]]
        named = self._uuids[gpu]
        return {one["index"] for one in document["replicas"] if named in one["uuids"]}

    def last_look(self) -> float:
        """When the last look began, in seconds since the boot."""
        look = agent_file.known(self.name).watch
        assert look
        return look.boot_s

    def wait_for_looks(self, count: int) -> None:
        """Return when so many more looks have ended."""
        for _ in range(count):
            before = self.last_look()
            self.until(lambda before=before: self.last_look() != before)  # type: ignore[misc]

    def load(self, streams: int, tokens: int) -> None:
        """Let clients stream until `stop_load`; the first stream has ended when this returns."""
        text = _STREAMS.read_text(encoding="utf-8")
        lab.run(self.name, ["sh", "-c", f"cat > /run/streams.py <<'END'\n{text}\nEND"])
        given = f"{PROGRAM} {SERVING} {streams} {tokens} /run/load.json"
        on(self.name, "rm -f /run/load.*; systemctl reset-failed load 2>/dev/null || true")
        on(self.name, f"systemd-run -q -u load python3 /run/streams.py {given}")
        self.until(lambda: bool(on(self.name, "ls /run/load.count || true")))

    def stop_load(self) -> list[dict[str, Any]]:
        """End the clients; every stream with when it was sent, when it ended, and its error."""
        on(self.name, "touch /run/load.stop")
        self.until(lambda: bool(on(self.name, "ls /run/load.json || true")))
        on(self.name, "systemctl stop load 2>/dev/null || true")
        found: list[dict[str, Any]] = json.loads(on(self.name, "cat /run/load.json"))
        return found
