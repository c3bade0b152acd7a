"""The steps of a rolling restart, for one replica."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from b200kit.node.client import correctness, engine_metrics
from b200kit.node.client.serving_config import ServingConfig
from b200kit.node.lib.error_line import unit_cause
from b200kit.node.serving.gateway import haproxy
from b200kit.node.serving.gateway.haproxy import GatewayServer
from b200kit.node.state.serving import ServedReplica

EVERY_S = 0.2
# Two empty looks in a row: a request may be between the gateway and the engine.
QUIET_LOOKS = 2
UP_WITHIN_S = 30.0

Start = Callable[[str, float], "str | None"]
"""Restarts a unit within some seconds; the reason when it did not come up."""


class Halt(Exception):
    """Why it ends here, in one line; untouched: the replica is as it was before."""

    def __init__(self, line: str, untouched: bool = False) -> None:
        super().__init__(line)
        self.untouched = untouched


class GatewayControl:
    """The gateway of this node, as far as a rolling restart needs it."""

    def servers(self) -> list[GatewayServer]:
        """Who is in rotation; nobody where the gateway is of a kit that could not be asked."""
        return haproxy.servers() if haproxy.SOCKET.exists() else []

    def drained(self, name: str) -> bool:
        """Whether somebody drained it."""
        return haproxy.set_aside(name) == "drain"

    def set_state(self, name: str, state: str) -> None:
        """Out of rotation, or back."""
        haproxy.set_state(name, state)

    def show(self, key: str | None) -> None:
        """The key that replicas are shown from now on; one with the other key says 401, and the
        request goes to another.
        """
        if key:
            haproxy.show_key(key)

    def point(self, name: str, host: str, port: int) -> None:
        """Where a server is."""
        haproxy.point(name, host, port)


@dataclass
class RollingRestart:
    """Restarts replicas of one node. cut: go on though requests are still being answered."""

    serving: ServingConfig
    gateway: GatewayControl
    start: Start
    cut: bool = False
    clock: Callable[[], float] = field(default=time.monotonic)

    async def restart(self, index: int, ours: bool = False) -> dict[str, object]:
        """One replica, out of rotation and back. Raises Halt, HAProxyError, ConfigError.

        ours: when it is drained already, that was a rolling restart that did not end.
        """
        replica, began = self.serving.replica(index), self.clock()
        name = server_name(replica)
        if name not in [server.name for server in self.gateway.servers()]:
            return await self._unseen(replica)
        self._enough_others(name)
        stays = self.gateway.drained(name) and not ours
        self.gateway.set_state(name, "drain")
        await self._until_quiet(replica, name)
        drained = self.clock()
        say(f"{name}: drained after {drained - began:.1f} s; restarting {replica.unit}")
        self._start(replica)
        warm = self.clock()
        await self._check(replica)
        message = f"{name}: warm after {warm - drained:.1f} s"
        if stays:
            say(f"{message}; it was drained before, so it stays so")
        else:
            await self._back(replica, name)
            say(f"{message} and back in rotation")
        times = {"drained_s": drained - began, "restart_s": warm - drained}
        return {"replica": index, **{key: round(value, 2) for key, value in times.items()}}

    async def _unseen(self, replica: ServedReplica) -> dict[str, object]:
        """One that the gateway is yet to learn of: nobody is sent there."""
        began = self.clock()
        self._start(replica)
        await self._check(replica)
        say(f"{server_name(replica)}: warm; the gateway does not know it yet")
        return {"replica": replica.index, "drained_s": 0.0, "restart_s": self.clock() - began}

    def _start(self, replica: ServedReplica) -> None:
        problem = self.start(replica.unit, self.serving.warm.timeout_s + 120)
        if problem:
            raise Halt(f"{replica.unit} did not come back, so it stays drained: {problem}")

    def _enough_others(self, name: str) -> None:
        """Whether the floor holds without this one. One that serves nobody may always go."""
        found = self.gateway.servers()
        own = next(server for server in found if server.name == name)
        others = [server for server in found if server.name != name]
        left = sum(server.takes_requests for server in others)
        if own.takes_requests and left < self.serving.rolling_restart.min_available:
            least = self.serving.rolling_restart.min_available
            out = ", ".join(f"{s.name} is {s.status}" for s in others if not s.takes_requests)
            raise Halt(
                f"{name} stays as it is: without it {left} replicas would take requests and "
                f"{least} must (min_available); {out or 'there are no others'}",
                untouched=True,
            )

    async def _until_quiet(self, replica: ServedReplica, name: str) -> None:
        """Wait until neither gateway nor engine has a request of this replica's left.

        The gateway does not count those of its process before a reload; the engine does.
        """
        drain_s = self.serving.rolling_restart.restart_drain_s
        limit, quiet = self.clock() + drain_s, 0
        while True:
            open_now = max(self._sessions(name), await self._running(replica))
            quiet = quiet + 1 if open_now == 0 else 0
            if quiet >= QUIET_LOOKS:
                return
            if self.clock() >= limit:
                break
            await asyncio.sleep(EVERY_S)
        if self.cut:
            return say(f"{name}: {open_now} requests are cut off")
        self.gateway.set_state(name, "ready")
        raise Halt(
            f"{name}: {open_now} requests still open after {drain_s:g} s, so it is "
            "back in rotation and was not restarted (rolling-restart --cut does not wait)",
            untouched=True,
        )

    def _sessions(self, name: str) -> int:
        return sum(server.sessions for server in self.gateway.servers() if server.name == name)

    async def _running(self, replica: ServedReplica) -> int:
        """Requests in the engine; 0 where it does not answer, as one that is down does not."""
        sample = await engine_metrics.scrape(self.serving.endpoint(replica.url))
        if isinstance(sample, str):
            return 0
        in_flight = self.serving.rolling_restart.in_flight
        return round(sum(sample.get(series, 0.0) for series in in_flight))

    async def _check(self, replica: ServedReplica) -> None:
        endpoint, salt = (
            self.serving.endpoint(replica.url),
            f"rolling-restart-{secrets.token_hex(6)}",
        )
        found = await correctness.check_and_read(endpoint, self.serving, salt)
        if found.problems:
            raise Halt(f"{replica.unit} answers wrong, so it stays drained: {found.problems[0]}")

    async def _back(self, replica: ServedReplica, name: str) -> None:
        """Back in rotation, and confirmed there."""
        address = urlsplit(replica.url)
        self.gateway.point(name, address.hostname or "127.0.0.1", address.port or 80)
        self.gateway.show(self.serving.api_key)
        self.gateway.set_state(name, "ready")
        limit = self.clock() + UP_WITHIN_S
        while not any(s.name == name and s.takes_requests for s in self.gateway.servers()):
            if self.clock() >= limit:
                raise Halt(f"{name} is warm, but the gateway does not take it for up")
            await asyncio.sleep(EVERY_S)


def server_name(replica: ServedReplica) -> str:
    """What the gateway calls a replica."""
    return f"vllm{replica.index}"


def start_unit(unit: str, within_s: float) -> str | None:
    """Restart a unit and wait until it is active; on failure stop it and say why."""
    # One that failed before must not be refused for having failed too often.
    for step in (["daemon-reload"], ["reset-failed", unit]):
        subprocess.run(["systemctl", *step], check=False, capture_output=True, timeout=60)
    try:
        done = subprocess.run(
            ["systemctl", "restart", unit], check=False, capture_output=True, timeout=within_s
        )
    except subprocess.TimeoutExpired:
        return _given_up(unit, f"not active within {within_s:g} s")
    return _given_up(unit, "") if done.returncode else None


def _given_up(unit: str, message: str) -> str:
    # systemd would go on restarting what cannot start.
    subprocess.run(["systemctl", "stop", unit], check=False, capture_output=True, timeout=180)
    journal = ["journalctl", "-u", unit, "-b", "-n", "400", "-o", "cat", "--no-pager"]
    done = subprocess.run(journal, check=False, capture_output=True, text=True, timeout=20)
    return message or unit_cause(done.stdout.splitlines())


def say(line: str) -> None:
    """One progress line on stderr."""
    print(line, file=sys.stderr, flush=True)
