"""`watchdog`: the watchdog of a node's replicas, b200-watchdog.service.

Each replica is looked at by itself, so one that fails never stops the looking at others. The
process ends, and systemd restarts it, when its configuration or its own program was replaced;
what it knew it finds again under /var/lib/b200kit/watchdog. Exit 0 for that, 1 when a part of it
failed, 2 for a bad configuration.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from b200kit.node.client.serving_config import ConfigError, Serving, load
from b200kit.node.lib import boot_clock, program
from b200kit.node.serving.gateway.haproxy import HAProxyError
from b200kit.node.serving.watchdog import sd_notify
from b200kit.node.serving.watchdog.effects import Edges, NotSeen
from b200kit.node.serving.watchdog.mender import Mender
from b200kit.node.serving.watchdog.probe import AnswerQuorum, Prober
from b200kit.node.serving.watchdog.replica import Watched
from b200kit.node.state.pace import Pace

# What a stop takes at most, and the abort before it.
_STOP_S = 300.0
_LOOK_FOR_CHANGES_S = 1.0


def watched(serving: Serving, edges: Edges) -> list[Watched]:
    """Every replica, with what an earlier watchdog knew of it."""
    plan = serving.watchdog
    in_flight, alike = serving.rolling_restart.in_flight, AnswerQuorum(len(serving.replicas))
    pace = Pace(plan.rules.slower)
    found = [
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
            directory=edges.directory,
            restart_within_s=serving.warm.timeout_s + _STOP_S,
            restart_drain_s=serving.rolling_restart.restart_drain_s,
        )
        for replica in serving.replicas
    ]
    for one in found:
        one.recall()
    forget_others(edges.directory, {one.path for one in found})
    return found


def forget_others(directory: Path, known: set[Path]) -> None:
    """Remove what is remembered of replicas that are not there any more."""
    for path in directory.glob("vllm*.json"):
        if path not in known:
            path.unlink(missing_ok=True)


async def look_after(one: Watched) -> None:
    """Look at one replica for ever. A look that fails is printed; the next one is made."""
    while True:
        hurry = False
        try:
            hurry = await one.tick()
        except (NotSeen, HAProxyError, OSError) as error:
            one.say(f"could not be looked at: {error}")
        if not hurry:
            await until_due(one)


async def until_due(one: Watched) -> None:
    """The time between two looks; less where a fault of the node begins or is over."""
    same, end = (one.standing.held, None), boot_clock.seconds() + one.rules.interval_s
    while (left := end - boot_clock.seconds()) > 0 and one.acts.held(one.replica.index) in same:
        await asyncio.sleep(min(left, _LOOK_FOR_CHANGES_S))


async def show_life(every_s: float | None) -> None:
    """Tell systemd that the event loop goes round; it kills and restarts one that does not."""
    while every_s:
        sd_notify.notify("WATCHDOG=1")
        await asyncio.sleep(every_s)


async def until_replaced(files: Sequence[Path], watching: Sequence[Watched]) -> None:
    """Return when one of the files was replaced and no replica is being repaired."""
    before = [identity(path) for path in files]
    while [identity(path) for path in files] == before or any(one.busy for one in watching):
        await asyncio.sleep(_LOOK_FOR_CHANGES_S)


def identity(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced; None where it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


async def watch(serving: Serving, config: Path, edges: Edges) -> None:
    """Watch until configuration or program are replaced. Raises what ended a part of it."""
    replicas = watched(serving, edges)
    plan = serving.watchdog
    mender = Mender(replicas, edges, plan.takes_out, plan.mend_rules, edges.directory)
    parts = [asyncio.ensure_future(look_after(one)) for one in replicas]
    parts.append(asyncio.ensure_future(mender.run()))
    replaced = asyncio.ensure_future(until_replaced([config, program.LOCATION], replicas))
    life = asyncio.ensure_future(show_life(sd_notify.watchdog_every_s()))
    sd_notify.notify("READY=1")
    every = [replaced, *parts, *([life] if sd_notify.watchdog_every_s() else [])]
    try:
        done, _ = await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        for part in done:
            part.result()
    finally:
        for part in [*every, life]:
            part.cancel()


def main(args: list[str]) -> int:
    """`watch --config FILE`."""
    parser = argparse.ArgumentParser(prog="watchdog", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args(args)
    try:
        serving = load(options.config)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    rules = serving.watchdog.rules
    print(
        f"watching {len(serving.replicas)} replicas every {rules.interval_s:g} s",
        file=sys.stderr,
        flush=True,
    )
    edges = Edges(takes_out=serving.watchdog.takes_out)
    asyncio.run(watch(serving, options.config, edges))
    print("configuration or program was replaced; restarting", file=sys.stderr)
    return 0
