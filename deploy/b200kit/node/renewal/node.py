"""This node, as far as a renewal needs it: who uses it, who works on it, and its smoke test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.client import engine_metrics
from b200kit.node.client.chat import Tally
from b200kit.node.client.serving_config import ServingConfig
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.latency import smoke
from b200kit.node.lib import boot_clock, lock
from b200kit.node.lib.hours import Hours
from b200kit.node.lib.managed_files import STATE_DIRECTORY, note
from b200kit.node.lib.readings import attempt
from b200kit.node.renewal.traffic import GatewayTraffic
from b200kit.node.serving.gateway import drain, haproxy, rolling_restart
from b200kit.node.serving.gateway.haproxy import GatewayServer, HAProxyError
from b200kit.node.state.serving import ServedReplica

QUARANTINE = STATE_DIRECTORY / "quarantine.json"
LOCK = lock.DIRECTORY / "lock.json"
_ROUTER = "router"
"""The backend that requests go to first where there is a cache-aware router."""


@dataclass(frozen=True)
class RenewalState:
    """What lies on the node now, None where it does not; *servers*: the gateway's, or why not."""

    servers: Sequence[GatewayServer] | str
    quarantine: object = None
    drained: object = None
    lock: object = None
    rolling_restart: object = None


def hindrance(standing: RenewalState, replicas: Sequence[ServedReplica]) -> str:
    """Why nothing is measured now; empty where nothing keeps it from that."""
    if standing.quarantine is not None:
        return "the node is out of service"
    if standing.drained is not None:
        return "the node is drained"
    if standing.lock is not None:
        return "a run works on the node"
    if standing.rolling_restart is not None:
        return "a rolling restart is under way"
    if isinstance(standing.servers, str):
        return standing.servers
    return _out(standing.servers, replicas)


def _out(servers: Sequence[GatewayServer], replicas: Sequence[ServedReplica]) -> str:
    """Which replica takes no requests: all of them are measured, or none."""
    known = {server.name: server for server in servers}
    for replica in replicas:
        name = f"vllm{replica.index}"
        if name not in known:
            return f"the gateway has no {name}"
        if not known[name].takes_requests:
            return f"{name} takes no requests: {known[name].status}"
    return "" if replicas else "no replica answers here"


@dataclass(frozen=True)
class ThisNode:
    """The node that this program runs on, within the hours of its site."""

    serving: ServingConfig
    hours: Hours

    def now_s(self) -> float:
        """Seconds by a clock that nobody sets."""
        return boot_clock.seconds()

    def left_s(self) -> float:
        """Seconds that are left of the hours; 0 outside them."""
        return self.hours.left_s(time.time())

    def hindrance(self) -> str:
        """Why nothing may be measured now; empty where it may."""
        return hindrance(_standing(), self.serving.replicas)

    def at_gateway(self) -> GatewayTraffic | str:
        """What the gateway counts now, or why that is not known."""
        try:
            return GatewayTraffic(*haproxy.traffic(besides=_ROUTER))
        except HAProxyError as error:
            return str(error)

    async def traffic(self) -> GatewayTraffic | str:
        """What gateway and engines count now; one that does not tell makes the whole unknown."""
        replicas = [self.serving.endpoint(replica.url) for replica in self.serving.replicas]
        samples = await asyncio.gather(*map(engine_metrics.scrape, replicas))
        seen = self.at_gateway()
        if isinstance(seen, str):
            return seen
        in_flight = 0.0
        for sample in samples:
            if isinstance(sample, str):
                return sample
            in_flight += sum(sample.get(name, 0.0) for name in self._series)
        return GatewayTraffic(seen.given, seen.open, in_flight)

    @property
    def _series(self) -> tuple[str, ...]:
        return self.serving.rolling_restart.in_flight

    async def measure(self, tally: Tally) -> SmokeResult:
        """The smoke test, as `measure` runs it. *tally*: what it sends through the gateway."""
        run = smoke.prepared(self.serving)
        run.tally = tally
        await run.run()
        return run.result()


def _standing() -> RenewalState:
    return RenewalState(
        servers=_servers(),
        quarantine=_noted(QUARANTINE),
        drained=_noted(drain.NOTE),
        lock=lock.current(LOCK, boot_clock.now()),
        rolling_restart=_noted(rolling_restart.NOTE),
    )


def _noted(path: Path) -> Any:
    """A note; one that cannot be read is there."""
    return attempt(partial(note, path))


def _servers() -> list[GatewayServer] | str:
    try:
        return haproxy.servers()
    except HAProxyError as error:
        return str(error)
