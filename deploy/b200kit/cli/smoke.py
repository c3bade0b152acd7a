"""`b200 smoke`: the latency of the site's nodes, or of any OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import os
import platform
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import click
from click.core import ParameterSource

from b200kit.cli.command import INTERRUPTED, JSON, Command, Refusal
from b200kit.cli.deploys import INVENTORY, PASSWORD, VERBOSE, run_entry
from b200kit.cli.endpoint import KEY, endpoint
from b200kit.node.client import client_health, engine_metrics
from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import Endpoint
from b200kit.node.client.client_health import ClientLimits
from b200kit.node.client.correctness import CorrectnessResult, check
from b200kit.node.client.formulas import Run
from b200kit.node.client.golden import reference
from b200kit.node.client.golden.ask import Replies, ask
from b200kit.node.client.golden.compare import Likeness, compare
from b200kit.node.client.judgement import STATUS, SmokeEvidence
from b200kit.node.client.prompts import PromptSource, source
from b200kit.node.client.smoke_result import SmokeConditions, SmokeResult
from b200kit.node.latency import document as smoke_document
from b200kit.node.latency.document import SmokeRun
from b200kit.node.latency.load_run import Volley
from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.lib.readings import is_digits
from b200kit.node.state.serving import Objective
from b200kit.report.terminal import latency, lines
from b200kit.run import console

try:  # a faster loop, where somebody installed it beside b200kit
    from uvloop import run as run_loop  # type: ignore[import-not-found]
except ImportError:
    from asyncio import run as run_loop

RATE = 4.0
PATH = "url"


@dataclass(frozen=True)
class EndpointResult:
    """What was measured of a URL; its answers in words, and what was wrong with them.

    bench: as `vllm bench serve --save-detailed` says the same.
    """

    schema: ClassVar[str] = "b200kit/endpoint/1"

    url: str
    client_host: str
    answers: str
    wrong_answers: tuple[str, ...]
    smoke: SmokeResult
    bench: Mapping[str, object]


@dataclass
class SmokeProbe:
    """One run against one URL: what is requested, and its results so far."""

    endpoint: Endpoint
    volley: Volley
    requests: int
    objective: Objective
    watch: client_health.Watch
    cpus: str
    answers: Answers
    correctness: CorrectnessResult | None = None
    run: Run | None = None
    delta: engine_metrics.Delta = field(
        default_factory=lambda: engine_metrics.Delta({}, {}, "no load was sent")
    )

    async def go(self) -> None:
        """Correctness and answers, then the load between two readings of the server's figures."""
        volley = self.volley
        # The check counts the tokens of an eighth as many words: of a prompt about as long.
        near = volley.input_tokens * 5
        self.correctness = await check(self.endpoint, volley.model, volley.salt, near)
        if self.correctness.problems:
            return
        await self.answers.ask(self.endpoint, self.correctness.ignores_eos)
        if self.answers.problems:
            return
        volley = replace(
            volley,
            scale=self.correctness.scale,
            ignore_eos=self.correctness.ignores_eos,
            salt="" if "cache_salt" in self.endpoint.refused else volley.salt,
        )
        self.volley = volley = await volley.scaled(self.endpoint)
        await volley.settle(self.endpoint, PATH)
        before = await engine_metrics.scrape(self.endpoint)
        self.run = await volley.fire(self.endpoint, PATH, self.requests, self.watch)
        self.delta = engine_metrics.Delta.over(
            [before], [await engine_metrics.scrape(self.endpoint)]
        )

    def result(self) -> EndpointResult:
        """What came of it."""
        arrival, now = self.volley.arrival, datetime.now(UTC)
        run, correctness = self.run or Run(()), self.correctness
        smoke = smoke_document.result(
            SmokeRun(
                taken_at=timestamp.text(now),
                path=PATH,
                evidence=SmokeEvidence(
                    {} if self.run is None else {PATH: run},
                    self.objective,
                    self.watch.health(),
                    limits=ClientLimits(needs_run_delay=sys.platform == "linux"),
                    correctness=self._problems(),
                    server=self.delta.figures(),
                ),
                cpus=self.cpus,
                load=self.volley.load(),
                conditions=SmokeConditions(
                    model=self.volley.model,
                    engine_version=correctness.engine_version if correctness else None,
                    requests=self.requests,
                    objective=self.objective,
                    same_text=correctness.same_text if correctness else None,
                    isl_measured=None,
                    osl_measured=None,
                ),
            )
        )
        names = {
            "date": now.strftime("%Y%m%d-%H%M%S"),
            "backend": "openai-chat",
            "endpoint_type": "openai-chat",
            "model_id": self.volley.model,
            "request_rate": smoke.load.rate or "inf",
            "burstiness": None if arrival.even or arrival.concurrency else 1.0,
            "max_concurrency": arrival.concurrency,
        }
        figures = smoke_document.bench_figures(smoke.main)
        bench = {**names, **figures, **smoke_document.requests(run)}
        said, wrong = self.answers.outcome, self.answers.problems
        return EndpointResult(self.endpoint.url, platform.node(), said, wrong, smoke, bench)

    def _problems(self) -> tuple[str, ...]:
        if self.correctness is None:
            return ("the correctness check did not run",)
        return (*self.correctness.problems, *self.answers.problems)


@click.command(
    "smoke",
    cls=Command,
    exit_codes={
        0: "pass",
        1: "a wrong answer, a failed request or a missed objective",
        2: "invalid: the client, not the server, may have made the figures",
        INTERRUPTED: "interrupted",
    },
)
@click.argument("targets", nargs=-1, metavar="[NODE... | URL]")
@click.option("--model", metavar="MODEL", help="The name that an endpoint serves it by.")
@click.option(
    "--requests", default=180, show_default=True,
    help="So many carry the verdict.",
)  # fmt: skip
@click.option("--input-tokens", default=128, show_default=True, help="Of a prompt, about.")
@click.option("--output-tokens", default=64, show_default=True, help="Of an answer, exactly.")
@click.option("--rate", type=float, help=f"Open loop: requests/s.  [default: {RATE:g}]")
@click.option("--concurrency", type=int, help="Closed loop: so many requests at a time.")
@click.option(
    "--arrival", type=click.Choice(["poisson", "constant"]), default="poisson", show_default=True,
    help="Of an open loop.",
)  # fmt: skip
@click.option(
    "--prompts", default="words", show_default=True, metavar="NAME|PATH",
    help="words (random), texts (running), or yours: one a line, as JSON in a .jsonl.",
)  # fmt: skip
@click.option("--seed", type=int, help="Of arrivals and prompts; a new one when left out.")
@click.option(
    "--goodput", default="ttft:100,tpot:100", show_default=True, metavar="METRIC:MS[,...]",
    help="Objectives of a good request: ttft, tpot, e2el; or none.",
)  # fmt: skip
@click.option("--share", default=0.95, show_default=True, help="Fraction that must be good.")
@click.option("--key-file", metavar="PATH", help=f"File with the API key; else ${KEY}.")
@click.option("--cpus", metavar="LIST", help='CPUs for this client, such as "2-3".')
@click.option("--output", metavar="PATH", help="Write the JSON of an endpoint's result there, too.")
@JSON
@INVENTORY
@PASSWORD
@VERBOSE
@click.pass_context
def command(
    context: click.Context, /, targets: tuple[str, ...], inventory: Path | None, asks: bool,
    verbose: bool, as_json: bool, **given: Any,
) -> int:  # fmt: skip
    """Measure latency: of the site's nodes as their inventory asks, or of any endpoint at URL.

    An endpoint's API key comes from a file or from the environment, never from the command line.
    """
    # Who names a model means an endpoint.
    named = [target for target in targets if "://" in target or given["model"]]
    url = named[0] if named else None
    if url is None:
        _refuse_options_of_endpoints(context, given)
        return run_entry("smoke.py", targets, inventory, verbose, asks, as_json)
    if len(targets) > 1 or inventory or asks or verbose:
        raise click.UsageError("a URL goes alone, without nodes, -i, -K and -v")
    if not given["model"]:
        raise click.UsageError("--model is not given: the name that the endpoint serves it by")
    options = SimpleNamespace(url=url, **given)
    try:
        probe = _probe(options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    console.err(f"b200 smoke: {_foresight(probe)}")
    try:
        run_loop(probe.go())
    except KeyboardInterrupt:
        raise Refusal("interrupted; a part of a run is not reported", INTERRUPTED) from None
    found = probe.result()
    if options.output:
        Path(options.output).write_text(json.dumps(unstructure(found)) + "\n")
    if as_json:
        console.document(unstructure(found))
    else:
        page = lines.Lines(console.width(), console.coloured())
        latency.endpoint(page, found.url, found.smoke, found.answers)
        console.out(*page.found, colour=True)
    return STATUS[found.smoke.verdict]


def _refuse_options_of_endpoints(context: click.Context, names: Iterable[str]) -> None:
    """Nodes are measured as their inventory says."""
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} goes with a URL; nodes: see `smoke` of the inventory")


def _foresight(probe: SmokeProbe) -> str:
    """What is about to be sent, and how long that takes at least."""
    arrival = probe.volley.arrival
    if arrival.concurrency or not arrival.rate:
        return f"{probe.requests} requests, {arrival.concurrency} at a time"
    seconds = probe.requests / arrival.rate
    return f"{probe.requests} requests in about {seconds:.0f} s"


def _probe(options: SimpleNamespace) -> SmokeProbe:
    """The requested run, checked before anything is sent. Raises UsageError or ValueError."""
    for name in ("requests", "rate", "input_tokens", "output_tokens", "concurrency"):
        value = getattr(options, name)
        if value is not None and not 0 < value < float("inf"):
            raise click.UsageError(f"--{name.replace('_', '-')} must be above 0, not {value}")
    if options.rate is not None and options.concurrency is not None:
        raise click.UsageError("--rate and --concurrency exclude each other")
    if options.output and not os.access(Path(options.output).parent, os.W_OK | os.X_OK):
        raise click.UsageError(f"--output {options.output}: its directory cannot be written")
    target = endpoint(options.url, options.key_file, "smoke")
    cpus = client_health.pin(options.cpus)
    volley = Volley(
        options.model,
        options.input_tokens,
        options.output_tokens,
        Arrival(options.rate or RATE, options.arrival == "constant", options.concurrency),
        secrets.randbelow(1 << 31) if options.seed is None else options.seed,
        f"smoke-{secrets.token_hex(6)}",
        prompts=_prompts(options.prompts),
    )
    watch = client_health.Watch(client_health.claim_realtime())
    objective = _objective(options.goodput, options.share)
    answers = Answers(options.model, volley.salt)
    return SmokeProbe(target, volley, options.requests, objective, watch, cpus, answers)


def _prompts(name: str) -> PromptSource:
    """What is sent. Raises UsageError, or ValueError."""
    try:
        return source(name)
    except OSError as error:
        raise click.UsageError(f"--prompts {name}: {error.strerror}") from None


def _objective(goodput: str, share: float) -> Objective:
    if not 0 < share <= 1:
        raise click.UsageError(f"--share must be above 0 and at most 1, not {share:g}")
    limits: dict[str, float] = {}
    for word in [] if goodput == "none" else goodput.split(","):
        name, _, value = word.partition(":")
        if name not in ("ttft", "tpot", "e2el") or not is_digits(value.replace(".", "", 1)):
            raise click.UsageError(f"--goodput {word}: not ttft:MS, tpot:MS or e2el:MS")
        limits[f"{name}_ms"] = float(value)
    return Objective(**limits, share=share)


TOKENS = 32


@dataclass
class Answers:
    """What an endpoint says to the golden prompts, and what is wrong with that."""

    model: str
    salt: str
    problems: tuple[str, ...] = ()
    outcome: str = "no golden prompt was sent"

    async def ask(self, endpoint: Endpoint, ignore_eos: bool) -> None:
        """Twice, and judge them; once where the endpoint gives nothing to compare."""
        to = (endpoint, self.model, TOKENS)
        said = await ask(*to, self.salt, ignore_eos=ignore_eos)
        if said.unmeasured:
            words = await ask(*to, self.salt, ignore_eos=ignore_eos, as_words=True)
            self.problems = tuple(reference.problems(words, None))
            self.outcome = f"not compared: {said.unmeasured}"
            return
        again = await ask(*to, f"{self.salt}-again", ignore_eos=ignore_eos)
        self.problems = (*reference.problems(said, None), *self._apart(said, again))
        self.outcome = "wrong" if self.problems else "twice alike"

    def _apart(self, said: Replies, again: Replies) -> list[str]:
        """Why the second answers are others than the first ones."""
        if said.error:
            return []
        if again.error or again.unmeasured:
            return [again.error or again.unmeasured]
        found = compare(again.answers, said.answers)
        different = found.outcome is Likeness.DIFFERENT
        return [f"asked twice, it answers otherwise: {found.why}"] if different else []
