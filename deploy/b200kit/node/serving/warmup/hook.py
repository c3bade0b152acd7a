"""`warm`: the unit's ExecStartPost. Returns only when the replica is warm, so active means warm.

Waits for /health while it watches the main process (systemd would let this hook run on after an
engine that died), then sends rounds until two in a row agree and the unit's journal says that no
kernel was compiled since the one before. One progress line a round on stderr, which the journal
keeps; the record goes to warm-<replica>.json. Exit 0 warm, 1 not (one clear line), 2 for a
configuration that cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from b200kit.node.client import client_health
from b200kit.node.client.chat import Endpoint
from b200kit.node.client.correctness import models_problems, version
from b200kit.node.client.http import HttpDeadlines
from b200kit.node.client.message import HttpError
from b200kit.node.client.serving_config import ConfigError, ServingConfig, load
from b200kit.node.lib import journal, timestamp
from b200kit.node.lib.main_pid import MainPid, MainPidGone
from b200kit.node.serving.warmup.request_shapes import EngineLimits, RequestShape, shapes
from b200kit.node.serving.warmup.rounds import NotWarm, Warmer, WarmupRound
from b200kit.node.state.warmup_features import jit_lines

RECORDS = Path("/var/lib/b200kit")
HEALTH_EVERY_S = 0.25
SAY_EVERY_S = 15.0
# From then on it says what the engine last printed, too.
PATIENCE_S = 60.0
_WAITING = "waiting for"


@dataclass
class WarmUp:
    """One warm-up under way; `document()` is its record."""

    serving: ServingConfig
    replica: int
    endpoint: Endpoint
    began: float = field(default_factory=time.monotonic)
    health_s: float | None = None
    rounds: list[WarmupRound] = field(default_factory=list)
    engine_version: str | None = None
    difference: float | None = None
    invocation: str = field(default_factory=lambda: os.environ.get("INVOCATION_ID", ""))

    async def run(self) -> None:
        """Until warm. Raises NotWarm with one line when it does not get there in time."""
        plan = self.serving.warm
        try:
            await asyncio.wait_for(self._get_warm(), plan.timeout_s)
        except asyncio.TimeoutError:
            raise NotWarm(f"not warm within {plan.timeout_s:g} s: {self._so_far()}") from None

    async def _get_warm(self) -> None:
        await self._healthy()
        await self._rounds()

    async def _healthy(self) -> None:
        """Poll /health; the port opens only when the engine is ready."""
        said_at = time.monotonic()
        quick = HttpDeadlines(connect=2, idle=5, total=10)
        while True:
            answer = await self.endpoint.get("/health", quick)
            try:
                if answer.status == 200:
                    break
            except HttpError:
                pass  # refused or reset: not up yet, and the deadline bounds the waiting
            if time.monotonic() - said_at > SAY_EVERY_S:
                said_at = time.monotonic()
                waited = said_at - self.began
                said = await asyncio.to_thread(self._last_words) if waited > PATIENCE_S else ""
                say(f"{_WAITING} {self.endpoint.url}/health, {waited:.0f} s so far{said}")
            await asyncio.sleep(HEALTH_EVERY_S)
        self.health_s = time.monotonic() - self.began
        say(f"{self.endpoint.url} answers after {self.health_s:.1f} s; warming up")

    def _last_words(self) -> str:
        """What the engine last printed, to be put after a sentence; empty where that is unknown."""
        try:
            printed = [line.strip() for line in journal.lines(self.invocation, 500)]
        except OSError:
            return ""
        printed = [line for line in printed if line and not line.startswith(_WAITING)]
        return f"; last in its journal: {printed[-1][:200]}" if printed else ""

    async def _rounds(self) -> None:
        serving, plan = self.serving, self.serving.warm
        problems = await models_problems(self.endpoint, serving.model)
        if problems:
            raise NotWarm(problems[0])
        self.engine_version = await version(self.endpoint)
        salt = f"warm-{secrets.token_hex(6)}"
        warmer = Warmer(self.endpoint, serving.model, self._shapes(), salt)
        compiled = await self._compiled()
        for number in range(1, plan.max_rounds + 1):
            done = await warmer.round(number)
            before, compiled = compiled, await self._compiled()
            self.rounds.append(replace(done, jit=compiled - before))
            say(self._progress())
            if self._settled():
                return
        raise NotWarm(f"no two rounds in a row agree: {self._so_far()}")

    def _shapes(self) -> list[RequestShape]:
        """The ladder of this server. Raises NotWarm when a system prompt cannot be read."""
        serving = self.serving
        limits = EngineLimits(
            serving.max_num_seqs, serving.max_num_batched_tokens, serving.max_model_len
        )
        try:
            systems = [Path(path).read_text("utf-8") for path in serving.warm.system_prompts]
        except (OSError, ValueError) as error:
            raise NotWarm(f"a system prompt cannot be read: {error}") from error
        return shapes(limits, serving.warm.features, systems)

    async def _compiled(self) -> int:
        """Kernels compiled so far, by the journal. One that cannot be read is never "none"."""
        try:
            return jit_lines(await asyncio.to_thread(journal.lines, self.invocation))
        except OSError as error:
            raise NotWarm(f"what was compiled was not measured: {error}") from error

    def _settled(self) -> bool:
        """Whether the last two rounds agree and nothing was compiled in the last."""
        agree = self.difference is not None and self.difference <= self.serving.warm.tolerance
        return agree and self.rounds[-1].jit == 0

    def _progress(self) -> str:
        """The line of the last round, and the difference it makes."""
        last = self.rounds[-1]
        line = f"warm round {last.number}: TTFT p50 {last.ttft_ms:.1f} ms"
        line += f", TPOT p50 {last.tpot_ms:.2f} ms"
        if len(self.rounds) > 1:
            before = self.rounds[-2]
            self.difference = last.difference(before)
            line += f" ({self.difference:.0%} from round {before.number})"
        line += f", {last.jit} kernels compiled" if last.jit else ""
        return f"{line}, {last.requests} requests in {last.seconds:.1f} s"

    def _so_far(self) -> str:
        if self.health_s is None:
            return f"{self.endpoint.url}/health never answered 200{self._last_words()}"
        times = ", ".join(f"{item.ttft_ms:.1f}" for item in self.rounds[-4:])
        limit = self.serving.warm.tolerance
        text = f"{len(self.rounds)} rounds, last TTFT p50 {times or '-'} ms, tolerance {limit:.0%}"
        compiled = self.rounds[-1].jit if self.rounds else 0
        return f"{text}, {compiled} kernels compiled in the last" if compiled else text

    def document(self, problem: str | None, main_pid: int) -> dict[str, object]:
        """The record, schema b200kit/warm/1."""
        return {
            "schema": "b200kit/warm/1",
            "replica": self.replica,
            "warm": problem is None,
            "problem": problem,
            "main_pid": main_pid,
            "model": self.serving.model,
            "engine": self.serving.engine,
            "engine_version": self.engine_version,
            "stand_in": self.serving.stand_in,
            "taken_at": timestamp.now(),
            "took_s": round(time.monotonic() - self.began, 2),
            "health_s": self.health_s,
            "first_ttft_ms": self.rounds[0].first_ttft_ms if self.rounds else None,
            "ttft_ms": self.rounds[-1].ttft_ms if self.rounds else None,
            "tpot_ms": self.rounds[-1].tpot_ms if self.rounds else None,
            "features": list(self.serving.warm.features),
            "system_prompts": len(self.serving.warm.system_prompts),
            "difference": self.difference,
            "tolerance": self.serving.warm.tolerance,
            "rounds": [asdict(item) for item in self.rounds],
        }


def say(line: str) -> None:
    """One progress line on stderr."""
    print(line, file=sys.stderr, flush=True)


def write_record(document: dict[str, object], replica: int) -> Path | None:
    """Write warm-<replica>.json, whole or not at all; None when no directory can be written."""
    state = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    for directory in (RECORDS, *([Path(state)] if state else [])):
        target = directory / f"warm-{replica}.json"
        partial = directory / f".warm-{replica}.json.{os.getpid()}"
        try:
            partial.write_text(json.dumps(document) + "\n")
            partial.chmod(0o644)
            partial.replace(target)
        except OSError:
            continue  # the unit's user may write only one of the two
        return target
    return None


async def warm_up(work: WarmUp, main_pid: int) -> str | None:
    """Run it beside the main process; the reason when it did not get warm, else None."""
    try:
        await MainPid(main_pid).guard(work.run())
    except (NotWarm, MainPidGone) as error:
        return str(error)
    return None


def main(args: list[str]) -> int:
    """`warm --config FILE --replica I --main-pid PID`."""
    parser = argparse.ArgumentParser(prog="warm", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--replica", type=int, required=True)
    parser.add_argument("--main-pid", type=int, required=True)
    options = parser.parse_args(args)
    try:
        serving = load(options.config)
        url = serving.replica(options.replica).url
    except ConfigError as error:
        say(str(error))
        return 2
    client_health.claim_realtime()
    work = WarmUp(serving, options.replica, serving.endpoint(url))
    problem = asyncio.run(warm_up(work, options.main_pid))
    if write_record(work.document(problem, options.main_pid), options.replica) is None:
        say(f"the record of replica {options.replica} could not be written (no writable place)")
    if problem:
        say(f"replica {options.replica} is not warm: {problem}")
        return 1
    say(f"replica {options.replica} is warm after {time.monotonic() - work.began:.1f} s")
    return 0
