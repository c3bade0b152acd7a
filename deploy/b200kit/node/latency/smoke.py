"""`measure`: the smoke test. Correctness, then latency through the gateway and direct, as JSON.

Prints a SmokeResult (docs/measure.md) on stdout, whatever happens; exit 0 when the
verdict is "pass", 1 for "fail", 2 for "invalid" or a configuration that cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

from b200kit.node.client import client_health, engine_metrics
from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import Endpoint, Tally
from b200kit.node.client.client_health import ClientLimits
from b200kit.node.client.correctness import CorrectnessResult, check, version
from b200kit.node.client.formulas import Run
from b200kit.node.client.golden import ask as golden
from b200kit.node.client.golden.replicas import Golden
from b200kit.node.client.judgement import STATUS, LowLoad, SmokeEvidence
from b200kit.node.client.prompts import Scale
from b200kit.node.client.serving_config import ConfigError, ServingConfig, load
from b200kit.node.client.smoke_result import GpuFigures, SmokeConditions, SmokeResult
from b200kit.node.latency import document as smoke_document
from b200kit.node.latency import gateway_counters
from b200kit.node.latency.document import SmokeRun
from b200kit.node.latency.gpu_watch import GpuWatch
from b200kit.node.latency.load_run import UNCOUNTED, Volley
from b200kit.node.lib import boot_clock, documents, timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.serving import processes
from b200kit.node.state import agent
from b200kit.node.state.agent import AgentState
from b200kit.node.state.serving import SmokePlan
from b200kit.node.state.view import Unmeasured

NO_LOAD = "no load was sent"
_UNSENT = Unmeasured(NO_LOAD)
GATEWAY = "gateway"
_HELD_S, _AGAIN_S = 60.0, 0.2


def is_held() -> bool:
    """Whether the agent keeps a replica out of rotation that it may put back."""
    known = documents.remembered(AgentState, Path(agent.PATH))
    if known is None or known.boot_id != boot_clock.now().boot_id:
        return False
    return any((one.held or one.out) and not one.given_up for one in known.watchdog.values())


async def put_back(held: Callable[[], bool] = is_held, within_s: float = _HELD_S) -> None:
    """Return when no replica is held, or after so many seconds.

    What the agent took out for a fault is out until a health check after the repair has passed.
    """
    end = time.monotonic() + within_s
    while held() and time.monotonic() < end:
        await asyncio.sleep(_AGAIN_S)


@dataclasses.dataclass
class SmokeTest:
    """One smoke test under way: what is asked, and what has come of it so far."""

    serving: ServingConfig
    seed: int
    salt: str
    watch: client_health.Watch
    any_load: bool = False
    correctness: CorrectnessResult | None = None
    paths: dict[str, Run] = dataclasses.field(default_factory=dict)
    delta: engine_metrics.Delta = dataclasses.field(
        default_factory=lambda: engine_metrics.Delta({}, {}, NO_LOAD)
    )
    affinity: str = ""
    engine_version: str | None = None
    gpus: Unmeasured | tuple[GpuFigures, ...] = _UNSENT
    compiled: Unmeasured | int = _UNSENT
    scale: Scale | None = None
    gateway_wait: Unmeasured | float = _UNSENT
    others: Unmeasured | int = _UNSENT
    golden: Golden | None = None
    # Requests sent through the gateway.
    tally: Tally = dataclasses.field(default_factory=Tally)

    @property
    def plan(self) -> SmokePlan:
        """The load that is asked for."""
        return self.serving.smoke

    @property
    def volley(self) -> Volley:
        """The same load for every path."""
        plan, checked = self.plan, self.correctness
        return Volley(
            self.serving.model,
            plan.input_tokens,
            plan.output_tokens,
            Arrival(plan.rate),
            self.seed,
            self.salt,
            self.scale or (checked.scale if checked else Scale()),
            checked.ignores_eos if checked else True,
            prompts=self.serving.prompts,
        )

    @property
    def replicas(self) -> list[Endpoint]:
        """The replicas, addressed directly."""
        return [self.serving.endpoint(replica.url) for replica in self.serving.replicas]

    async def run(self) -> None:
        """Correctness and answers, then the load while the GPUs are watched; stops where wrong."""
        gateway = dataclasses.replace(self.serving.endpoint(self.serving.gateway), tally=self.tally)
        await put_back()
        # NVML takes its time to begin: meanwhile the correctness check.
        with GpuWatch() as gpus:
            self.correctness = await check(
                gateway, self.serving.model, self.salt, self.serving.max_model_len
            )
            if self.correctness.problems:
                return
            self.scale = (await self.volley.scaled(gateway)).scale
            traffic = await gateway_counters.at_rest()
            if await self._wrong_answers():
                return
            self.engine_version = await version(self.replicas[0]) if self.replicas else None
            for name, endpoint in {GATEWAY: gateway, **self._directly()}.items():
                await self.volley.settle(endpoint, name)
            before = processes.compiled(self.units)
            gpus.begin()
            await self._load(gateway)
            ours = len(self.paths[GATEWAY].records) + UNCOUNTED
            self.others = gateway_counters.count(traffic, gateway_counters.traffic(), ours)
            self.gpus = gpus.end()
            self.compiled = processes.grown(before, processes.compiled(self.units))

    async def _wrong_answers(self) -> bool:
        """Ask each replica the golden prompts; whether one of them answers wrongly."""
        plan, checked, direct = self.plan, self.correctness, self._directly()
        if self.any_load or plan.golden_tokens == 0 or not direct:
            return False
        ignore_eos = checked.ignores_eos if checked else True
        asked = (
            golden.ask(to, self.serving.model, plan.golden_tokens, self.salt, ignore_eos=ignore_eos)
            for to in direct.values()
        )
        said = dict(zip(direct, await asyncio.gather(*asked), strict=True))
        self.golden = Golden(said, plan.golden_tokens, plan.golden_tolerance)
        return bool(self.golden.wrong)

    async def _load(self, gateway: Endpoint) -> None:
        """Through the gateway, then at all replicas at once: each meets the same load as before."""
        plan, volley = self.plan, self.volley
        before, waited = await self._scrape(), gateway_counters.delays_ms()
        start = time.perf_counter()
        self.paths[GATEWAY] = await volley.fire(gateway, GATEWAY, plan.requests, self.watch)
        wall_ms = (time.perf_counter() - start) * 1000
        self.gateway_wait = gateway_counters.share(waited, gateway_counters.delays_ms(), wall_ms)
        self.delta = engine_metrics.Delta.over(before, await self._scrape())
        self.paths |= await volley.fire_at(self._directly(), plan.direct_requests, self.watch)

    def _directly(self) -> dict[str, Endpoint]:
        pairs = zip(self.serving.replicas, self.replicas, strict=True)
        return {f"direct-{replica.index}": endpoint for replica, endpoint in pairs}

    @property
    def units(self) -> list[str]:
        """The replicas' units."""
        return [replica.unit for replica in self.serving.replicas]

    async def _scrape(self) -> list[engine_metrics.Sample | str]:
        return [await engine_metrics.scrape(endpoint) for endpoint in self.replicas]

    def result(self) -> SmokeResult:
        """What came of it."""
        factor = self.plan.cpu_wait_limit_factor
        return smoke_document.result(
            SmokeRun(
                taken_at=timestamp.now(),
                path=GATEWAY,
                evidence=SmokeEvidence(
                    self.paths,
                    self.plan.goodput,
                    self.watch.health(),
                    correctness=self.correctness.problems
                    if self.correctness
                    else ("the correctness check did not run",),
                    server=dataclasses.replace(
                        self.delta.figures(),
                        jit_warnings=self.compiled,
                        gateway_run_delay_share=self.gateway_wait,
                        other_requests=self.others,
                    ),
                    gateway_limit_ms=self.plan.gateway_limit_ms * factor,
                    limits=ClientLimits(loop_lag_ms=self.plan.loop_lag_ms).times(factor),
                    # In a sweep the load may be too much for the servers.
                    low_load=None
                    if self.any_load
                    else LowLoad(self.plan.replica_slowdown, self.plan.stall_ms),
                    any_load=self.any_load,
                    golden=self.golden,
                ),
                cpus=self.affinity,
                load=self.volley.load(),
                conditions=self.conditions(),
                gpus=self.gpus,
            )
        )

    def conditions(self) -> SmokeConditions:
        """What a reader must know to repeat or to doubt the numbers."""
        serving, plan = self.serving, self.plan
        return SmokeConditions(
            model=serving.model,
            engine=serving.engine,
            engine_version=self.engine_version,
            stand_in=serving.stand_in,
            requests=plan.requests,
            direct_requests=plan.direct_requests,
            replicas=len(serving.replicas),
            max_num_seqs=serving.max_num_seqs,
            max_model_len=serving.max_model_len,
            max_num_batched_tokens=serving.max_num_batched_tokens,
            cpu_wait_limit_factor=plan.cpu_wait_limit_factor,
            objective=plan.goodput,
            same_text=self.correctness.same_text if self.correctness else None,
            isl_measured=None,
            osl_measured=None,
            server_ages_s=processes.ages_s(self.units),
            libraries=processes.libraries(self.units),
        )


def _options(args: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="measure", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--input-tokens", type=int)
    parser.add_argument("--output-tokens", type=int)
    parser.add_argument("--direct-requests", type=int)
    parser.add_argument(
        "--any-load", action="store_true", help="the load may be too much for them, as in a sweep"
    )
    parser.add_argument(
        "--random-words", action="store_true", help="whatever prompts the configuration names"
    )
    parser.add_argument("--seed", type=int, help="default: a new one each run, disclosed")
    return parser.parse_args(args)


def _with(serving: ServingConfig, options: argparse.Namespace) -> ServingConfig:
    """The configuration with what the command line overrides. Raises ConfigError."""
    names = ("requests", "rate", "input_tokens", "output_tokens", "direct_requests")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    for name, value in given.items():
        if value <= 0:
            raise ConfigError(f"--{name.replace('_', '-')} must be above 0, not {value}")
    plan = dataclasses.replace(serving.smoke, **given)
    plan = dataclasses.replace(plan, prompts="words") if options.random_words else plan
    if plan.input_tokens + plan.output_tokens > serving.max_model_len:
        raise ConfigError(
            f"{plan.input_tokens} input and {plan.output_tokens} output tokens exceed"
            f" max_model_len {serving.max_model_len}"
        )
    return dataclasses.replace(serving, smoke=plan)


def prepared(serving: ServingConfig, seed: int | None = None, any_load: bool = False) -> SmokeTest:
    """A smoke test to run in this process, which is put on the client's CPUs and made real-time.

    seed: None for a new one. Raises ValueError for CPUs that it cannot have, and ConfigError.
    """
    _ = serving.prompts  # prompts that cannot be read are found before anything is sent
    affinity = client_health.pin(serving.client_cpus)
    watch = client_health.Watch(client_health.claim_realtime())
    seed = secrets.randbelow(1 << 31) if seed is None else seed
    salt = f"smoke-{secrets.token_hex(6)}"
    return SmokeTest(serving, seed, salt, watch, any_load, affinity=affinity)


def main(args: list[str]) -> int:
    """`measure --config FILE [--requests N --rate R --input-tokens I --output-tokens O]`."""
    options = _options(args)
    try:
        serving = _with(load(options.config), options)
        run = prepared(serving, options.seed, options.any_load)
    except (ConfigError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    asyncio.run(run.run())
    found = run.result()
    print(json.dumps(unstructure(found)))
    return STATUS[found.verdict]
