"""`measure`: the smoke test. Canary, then latency through the gateway and direct, as one document.

Prints JSON "b200kit/smoke/1" (docs/latency.md) on stdout, whatever happens; exit 0 when the
verdict is "pass", 1 for "fail", 2 for "invalid" or a configuration that cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import secrets
import sys
from datetime import datetime, timezone
from pathlib import Path

from deploy.core import smoke
from deploy.core.latency import FORMULAS, Run, schedule_delay, summary
from deploy.node import metrics, starvation
from deploy.node.canary import Canary, check, version
from deploy.node.client import ChatRequest, Endpoint, chat
from deploy.node.http import Deadlines
from deploy.node.load import open_loop, poisson
from deploy.node.prompts import prompt
from deploy.node.serving import ConfigError, Serving, SmokePlan, load

DEADLINES = Deadlines(connect=5, idle=30, total=120)
UNCOUNTED = 2


@dataclasses.dataclass
class Smoke:
    """One smoke test under way: what is asked, and what has come of it so far."""

    serving: Serving
    seed: int
    salt: str
    watch: starvation.Watch
    canary: Canary | None = None
    paths: dict[str, Run] = dataclasses.field(default_factory=dict)
    delta: metrics.Delta = dataclasses.field(
        default_factory=lambda: metrics.Delta({}, {}, "no load was sent")
    )
    affinity: str = ""
    engine_version: str | None = None

    @property
    def plan(self) -> SmokePlan:
        """The load that is asked for."""
        return self.serving.smoke

    @property
    def replicas(self) -> list[Endpoint]:
        """The replicas, addressed directly."""
        return [self.serving.endpoint(replica.url) for replica in self.serving.replicas]

    async def run(self) -> None:
        """Canary, gateway, then each replica; stops after a canary that failed."""
        gateway = self.serving.endpoint(self.serving.gateway)
        self.canary = await check(
            gateway, self.serving.model, self.salt, self.serving.max_model_len
        )
        if self.canary.problems:
            return
        self.engine_version = await version(self.replicas[0]) if self.replicas else None
        await self._settle(gateway, "gateway")
        before = await self._scrape()
        self.paths["gateway"] = await self._path(gateway, "gateway", self.plan.requests)
        self.delta = metrics.Delta.over(before, await self._scrape())
        for replica, endpoint in zip(self.serving.replicas, self.replicas, strict=True):
            name = f"direct-{replica.index}"
            await self._settle(endpoint, name)
            self.paths[name] = await self._path(endpoint, name, self.plan.direct_requests)

    async def _scrape(self) -> list[metrics.Sample | str]:
        return [await metrics.scrape(endpoint) for endpoint in self.replicas]

    async def _settle(self, endpoint: Endpoint, name: str) -> None:
        """A few requests that count nowhere: the first ones over a path may find it cold."""
        for number in range(UNCOUNTED):
            await chat(endpoint, self._request(f"{name}/first", number), DEADLINES)

    async def _path(self, endpoint: Endpoint, name: str, requests: int) -> Run:
        """An open-loop run over one path."""
        offsets = poisson(self.plan.rate, requests, self.seed)
        async with self.watch.running():
            answers = await open_loop(
                offsets,
                lambda number, due: chat(endpoint, self._request(name, number), DEADLINES, due),
            )
        return Run(tuple(answer.record() for answer in answers))

    def _request(self, name: str, number: int) -> ChatRequest:
        """The number-th request of a path: its own prompt, its own cache salt a run."""
        scale = self.canary.scale if self.canary else None
        words = scale.words(self.plan.input_tokens) if scale else self.plan.input_tokens
        text = prompt(words, f"{self.seed}/{name}", number)
        return ChatRequest(self.serving.model, text, self.plan.output_tokens, salt=self.salt)

    def document(self) -> dict[str, object]:
        """The whole smoke document."""
        health, limits = self.watch.health(), smoke.ClientLimits()
        main = self.paths.get("gateway", Run(()))
        server = self.delta.document()
        itl = server["itl_mean_ms"]
        series = main.series()
        judged = smoke.judge(
            self.paths,
            self.plan.objective,
            health,
            canary=self.canary.problems if self.canary else ("the canary did not run",),
            server_itl_ms=itl if isinstance(itl, float) else None,
            gateway_limit_ms=self.plan.gateway_limit_ms,
            limits=limits,
        )
        return {
            "schema": smoke.SCHEMA,
            "taken_at": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "verdict": judged.verdict,
            "reasons": list(judged.reasons),
            "request_rate": self.plan.rate,
            **summary(main, self.plan.objective),
            # For the report's distributions; microseconds are as fine as a reader can use.
            "ttfts_ms": [round(value, 3) for value in series["ttft"]],
            "itls_ms": [round(value, 3) for value in series["itl"]],
            "schedule_delay_ms": schedule_delay(main.records),
            "formulas": FORMULAS,
            "client": {**health.document(limits), "cpus": self.affinity},
            "server": server,
            "gateway_overhead": smoke.gateway_overhead(self.paths),
            "paths": smoke.path_summaries(self.paths, self.plan.objective),
            "conditions": self.conditions(main),
        }

    def conditions(self, main: Run) -> dict[str, object]:
        """What a reader must know to repeat or to doubt the numbers."""
        done = [record for record in main.records if record.error is None]
        inputs = [record.prompt_tokens or 0 for record in done]
        outputs = [record.completion_tokens or 0 for record in done]
        serving, plan = self.serving, self.plan
        return {
            "model": serving.model,
            "engine": serving.engine,
            "engine_version": self.engine_version,
            "stand_in": serving.stand_in,
            "seed": self.seed,
            "cache_salt": self.salt,
            "arrival": f"Poisson, {plan.rate:g} requests/s, open loop, no concurrency cap",
            "isl_requested": plan.input_tokens,
            "osl_requested": plan.output_tokens,
            "isl_measured": _spread(inputs),
            "osl_measured": _spread(outputs),
            "prompts": "own word list, distinct by seed; no prefix shared",
            "sampling": {"temperature": 0, "ignore_eos": True},
            "warmups": UNCOUNTED,
            "connection": "one a request, set-up counted",
            "direct_requests": plan.direct_requests,
            "replicas": len(serving.replicas),
            "max_num_seqs": serving.max_num_seqs,
            "max_model_len": serving.max_model_len,
            "max_num_batched_tokens": serving.max_num_batched_tokens,
            "objective": dataclasses.asdict(plan.objective),
            "same_text": self.canary.same_text if self.canary else None,
        }


def _spread(counts: list[int]) -> dict[str, object] | None:
    """Least, mean and most of token counts; None when nothing completed."""
    if not counts:
        return None
    return {"min": min(counts), "mean": sum(counts) / len(counts), "max": max(counts)}


def _options(args: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="measure", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--input-tokens", type=int)
    parser.add_argument("--output-tokens", type=int)
    parser.add_argument("--direct-requests", type=int)
    parser.add_argument("--seed", type=int, help="default: a new one each run, disclosed")
    return parser.parse_args(args)


def _with(serving: Serving, options: argparse.Namespace) -> Serving:
    """The configuration with what the command line overrides. Raises ConfigError."""
    names = ("requests", "rate", "input_tokens", "output_tokens", "direct_requests")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    for name, value in given.items():
        if value <= 0:
            raise ConfigError(f"--{name.replace('_', '-')} must be above 0, not {value}")
    plan = dataclasses.replace(serving.smoke, **given)
    if plan.input_tokens + plan.output_tokens > serving.max_model_len:
        raise ConfigError(
            f"{plan.input_tokens} input and {plan.output_tokens} output tokens exceed"
            f" max_model_len {serving.max_model_len}"
        )
    return dataclasses.replace(serving, smoke=plan)


def main(args: list[str]) -> int:
    """`measure --config FILE [--requests N --rate R --input-tokens I --output-tokens O]`."""
    options = _options(args)
    try:
        serving = _with(load(options.config), options)
        affinity = starvation.pin(serving.client_cpus)
    except (ConfigError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    watch = starvation.Watch(starvation.claim_realtime())
    run = Smoke(serving, seed, f"smoke-{secrets.token_hex(6)}", watch, affinity=affinity)
    asyncio.run(run.run())
    document = run.document()
    print(json.dumps(document))
    return {"pass": 0, "fail": 1}.get(str(document["verdict"]), 2)
