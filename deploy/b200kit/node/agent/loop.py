"""`agent`: everything that watches a node while it serves, b200-agent.service.

The node is checked every so often by a process that is kept for that (looker.py), and each replica
is probed by itself, so that one that fails never stops the others. What is known is in memory and
in one file (memory.py), from which the next agent goes on. The process ends, and systemd starts it
again, when its configuration or its own program was replaced. A health check at once, with
everything read anew: SIGUSR1, which `health-check` sends and then waits for its end.

Exit 0 for a restart, 1 when a part of it failed, 2 for a bad configuration.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from b200kit.node.agent.effects import Edges, EffectFailed
from b200kit.node.agent.looker import SUCCESS, HealthChecker, HealthCheckFailed
from b200kit.node.agent.memory import AgentMemory, say
from b200kit.node.agent.mender import Mender
from b200kit.node.agent.probe import AnswerQuorum, Prober
from b200kit.node.agent.replica import Watched
from b200kit.node.client.serving_config import ConfigError, ServingConfig, load
from b200kit.node.lib import boot_clock, documents, program
from b200kit.node.lib.program import identity
from b200kit.node.lib.readings import is_digits
from b200kit.node.serving.gateway.haproxy import HAProxyError
from b200kit.node.state import agent
from b200kit.node.state.agent import AgentState
from b200kit.node.state.pace import Pace
from b200kit.node.state.proof import ProofRules

# What a stop takes at most, and the abort before it.
_STOP_S = 300.0
_EVERY_S = 1.0


def watched(serving: ServingConfig, edges: Edges, memory: AgentMemory) -> list[Watched]:
    """Every replica."""
    plan = serving.watchdog
    in_flight, alike = serving.rolling_restart.in_flight, AnswerQuorum(len(serving.replicas))
    pace = Pace(plan.rules.slower)
    return [
        Watched(
            replica=replica,
            rules=plan.rules,
            prober=Prober(
                serving.endpoint(replica.url),
                serving.model,
                plan,
                reference=serving.reference,
                in_flight=in_flight,
                alike=alike,
                pace=pace,
                name=replica.unit,
            ),
            acts=edges,
            memory=memory,
            takes_out=plan.takes_out,
            restart_within_s=serving.warm.timeout_s + _STOP_S,
            restart_drain_s=serving.rolling_restart.restart_drain_s,
        )
        for replica in serving.replicas
    ]


@dataclass
class Agent:
    """The one of a node. *health_check_s*: seconds between two; *files*: a new one ends it."""

    memory: AgentMemory
    looker: HealthChecker
    replicas: Sequence[Watched]
    mender: Mender
    health_check_s: float
    files: Sequence[Path] = ()
    textfiles: Path = Path(agent.TEXTFILES)
    now: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Until configuration or program are replaced. Raises what ended a part of it."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.now.set)
        parts = [self.look_on(), self.save_on(), self.mender.run(), self.until_replaced()]
        if every_s := watchdog_every_s():
            parts.append(show_life(every_s))
        tasks = [asyncio.ensure_future(one) for one in [*parts, *map(look_after, self.replicas)]]
        notify("READY=1")
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.looker.end()
            self.memory.save()

    async def look_on(self) -> None:
        """Look every so often, and at once where somebody asks for it."""
        while True:
            fresh = self.now.is_set()
            self.now.clear()
            await self.look(fresh)
            try:
                await asyncio.wait_for(self.now.wait(), self.health_check_s)
            except asyncio.TimeoutError:
                continue

    async def look(self, fresh: bool = False) -> None:
        """One check, what it changes, and the proof of it. One that failed has seen nothing."""
        result = SUCCESS
        try:
            self.memory.looked(await self.looker.look(self.memory.look, fresh))
        except HealthCheckFailed as error:
            result = error.result
            say(str(error))
        self.memory.health_checks[result] += 1
        self.memory.prove()
        self.memory.save()
        if self.textfiles.is_dir():
            self._write_text()

    def _write_text(self) -> None:
        """The metrics, where the node's own node_exporter gives them."""
        # Loaded where there is one.
        from b200kit.node.status import metrics

        try:
            metrics.write(self.textfiles / "b200kit.prom", metrics.of_file(self.memory.path))
        except OSError as error:
            say(f"metrics: {error}")

    async def save_on(self) -> None:
        """Put events on the disk, however many there are at once."""
        while True:
            await asyncio.sleep(_EVERY_S)
            if self.memory.due:
                self.memory.save()

    async def until_replaced(self) -> None:
        """Return when one of the files was replaced and no replica is being repaired."""
        before = [identity(path) for path in self.files]
        while True:
            await asyncio.sleep(_EVERY_S)
            replaced = [identity(path) for path in self.files] != before
            if replaced and not any(one.busy for one in self.replicas):
                say("configuration or program was replaced; restarting")
                return


async def look_after(one: Watched) -> None:
    """Probe one replica for ever. A probe that fails is printed; the next one is made."""
    while True:
        hurry = False
        try:
            hurry = await one.tick()
        except (EffectFailed, HAProxyError, OSError) as error:
            one.say(f"could not be probed: {error}")
        if not hurry:
            await until_due(one)


async def until_due(one: Watched) -> None:
    """The time between two probes; less where a fault of the node begins or is over."""
    end = boot_clock.seconds() + one.rules.interval_s
    while (left := end - boot_clock.seconds()) > 0 and one.held() == one.standing.held:
        await asyncio.sleep(min(left, _EVERY_S))


async def show_life(every_s: float) -> None:
    """Tell systemd that the event loop goes round; it kills and restarts one that does not."""
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(every_s)


def main(args: list[str]) -> int:
    """`agent --node NAME --expect FILE ... --serving FILE [--proof FILE]`."""
    parser = argparse.ArgumentParser(prog="agent", description=__doc__)
    parser.add_argument("--node", required=True, help="its name in the inventory")
    parser.add_argument(
        "--expect", required=True, action="append", help="b200kit/expect/1, and what adds to it"
    )
    parser.add_argument("--serving", type=Path, required=True, help="serving.json")
    parser.add_argument(
        "--proof", type=Path, help="b200kit/proof-rules/1; without it none is issued"
    )
    parser.add_argument(
        "--look", type=float, default=10.0, help="seconds between two health checks"
    )
    parser.add_argument("--deadline", type=float, default=15.0, help="seconds of a health check")
    options = parser.parse_args(args)
    try:
        serving = load(options.serving)
        rules = documents.load(ProofRules, options.proof) if options.proof else None
    except (ConfigError, OSError, documents.Malformed) as error:
        print(error, file=sys.stderr)
        return 2
    # Three of them, of which the last may hang: as check.py asks for (stages/watchdog.py).
    holds_s = 3 * options.look + options.deadline
    # One that comes before the loop can hear it asks for what is done next anyway.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    memory = AgentMemory(options.node, serving.replicas, options.serving, rules, holds_s)
    memory.recall()
    # Whoever reads the file before the first health check finds that nothing is proven yet.
    memory.prove()
    edges, plan = Edges(), serving.watchdog
    replicas = watched(serving, edges, memory)
    words = [*(word for path in options.expect for word in ("--expect", path))]
    argv = program.argv("_health-check", *words, "--serving", str(options.serving))
    configured = [options.serving, options.proof, *map(Path, options.expect)]
    one = Agent(
        memory,
        HealthChecker(argv, options.deadline),
        replicas,
        Mender(replicas, edges, plan.takes_out, plan.mend_rules, memory),
        options.look,
        [*(path for path in configured if path), program.LOCATION],
    )
    say(f"watching {len(replicas)} replicas every {plan.rules.interval_s:g} s")
    asyncio.run(one.run())
    return 0


def ask(args: list[str]) -> int:
    """`health-check`: one that begins now, and its end; 1 with one line where there is none."""
    parser = argparse.ArgumentParser(prog="health-check", description=ask.__doc__)
    parser.add_argument("--within", type=float, default=60.0, help="seconds it may take")
    options = parser.parse_args(args)
    began = boot_clock.now()
    kill = ["systemctl", "kill", "--kill-who=main", "--signal=SIGUSR1", agent.UNIT]
    subprocess.run(kill, check=False, timeout=options.within)
    while boot_clock.seconds() < began.seconds + options.within:
        found = documents.remembered(AgentState, Path(agent.PATH))
        look = found.watch if found and found.boot_id == began.boot_id else None
        if look and look.boot_s >= round(began.seconds, 1):
            return 0
        time.sleep(0.2)
    print(f"{agent.UNIT} has ended no health check within {options.within:g} s", file=sys.stderr)
    return 1


def notify(state: str) -> bool:
    """Send a state such as "READY=1" or "WATCHDOG=1"; False where nobody listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    # A leading @ stands for the null byte of an abstract socket.
    path = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect(path)
        line.sendall(state.encode())
    return True


def watchdog_every_s() -> float | None:
    """Seconds between two signs of life: a third of WatchdogSec=; None where none is asked for."""
    limit = os.environ.get("WATCHDOG_USEC", "")
    return int(limit) / 3e6 if is_digits(limit) and int(limit) else None
