"""`b200 smoke`: the latency of the site's nodes, or of any OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import platform
import secrets
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from b200kit.cli import smoke_text
from b200kit.cli.command import INTERRUPTED, Command, Refusal
from b200kit.cli.deploys import INVENTORY, PASSWORD, VERBOSE, run_entry
from b200kit.cli.endpoint import KEY, endpoint
from b200kit.cli.smoke_answers import Answers, reference_in
from b200kit.node.client import client_health, engine_metrics, goodput
from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import Endpoint
from b200kit.node.client.correctness import CorrectnessResult, check
from b200kit.node.client.dataset import dataset
from b200kit.node.client.dataset.dataset import Dataset
from b200kit.node.client.formulas import Run
from b200kit.node.client.low_load import ROUNDS
from b200kit.node.client.smoke_verdict import ClientLimits
from b200kit.node.latency import document as smoke_document
from b200kit.node.latency.load_run import Volley
from b200kit.node.lib import timestamp
from b200kit.node.lib.readings import is_digits
from b200kit.node.state.serving import Objective
from b200kit.run import console

RATE = 4.0
PATH = "url"
STATUS = {"pass": 0, "fail": 1}


@dataclasses.dataclass(frozen=True)
class SmokeOptions:
    """What the command line requests."""

    url: str
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    rate: float | None
    concurrency: int | None
    arrival: str
    prompts: str
    prefix_share: float
    prefix_requests: int
    turns: int
    seed: int | None
    goodput: str
    share: float
    key_file: str | None
    cpus: str | None
    reference: str | None
    keep: str | None
    json: str | None


@dataclasses.dataclass
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
    delta: engine_metrics.Delta = dataclasses.field(
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
        volley = dataclasses.replace(
            volley,
            scale=self.correctness.scale,
            ignore_eos=self.correctness.ignores_eos,
        )
        self.volley = volley = await volley.scaled(self.endpoint)
        await volley.settle(self.endpoint, PATH)
        before = await engine_metrics.scrape(self.endpoint)
        self.run = await volley.fire_until(
            self.endpoint, PATH, self.requests, self.watch,
            lambda run: goodput.is_decided(run, self.objective),
        )  # fmt: skip
        self.delta = engine_metrics.Delta.over(
            [before], [await engine_metrics.scrape(self.endpoint)]
        )

    def document(self) -> dict[str, Any]:
        """The smoke document, with one entry a request besides."""
        arrival, now = self.volley.arrival, datetime.now(UTC)
        found = smoke_document.SmokeRun(
            taken_at=timestamp.text(now),
            paths={} if self.run is None else {PATH: self.run},
            objective=self.objective,
            health=self.watch.health(),
            limits=ClientLimits(needs_run_delay=sys.platform == "linux"),
            correctness=self._problems(),
            server=self.delta.document(),
            gateway_limit_ms=0.0,
            request_rate=None if arrival.concurrency else arrival.rate,
            cpus=self.cpus,
            conditions=self._conditions(),
        )
        names = {
            "date": now.strftime("%Y%m%d-%H%M%S"),
            "backend": "openai-chat",
            "endpoint_type": "openai-chat",
            "model_id": self.volley.model,
            "burstiness": None if arrival.even or arrival.concurrency else 1.0,
            "max_concurrency": arrival.concurrency,
        }
        each = smoke_document.requests(self.run or Run(()))
        document = smoke_document.document(found) | {"golden": self.answers.document()}
        return {**names, **document, **each}

    def _problems(self) -> tuple[str, ...]:
        if self.correctness is None:
            return ("the correctness check did not run",)
        return (*self.correctness.problems, *self.answers.problems)

    def _conditions(self) -> dict[str, object]:
        correctness = self.correctness
        return {
            "url": self.endpoint.url,
            "model": self.volley.model,
            "engine_version": correctness.engine_version if correctness else None,
            **self.volley.conditions(),
            "requests": self.requests,
            "objective": dataclasses.asdict(self.objective),
            "same_text": correctness.same_text if correctness else None,
            "client_host": platform.node(),
        }


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
@click.option("--model", help="The name that an endpoint serves it by.")
@click.option(
    "--requests", default=60, show_default=True,
    help="Measured; up to four times as many if undecided.",
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
    "--prompts", default="words", show_default=True, metavar="words|texts|FILE",
    help="Random words, running text, or yours: one a line, as JSON in a .jsonl.",
)  # fmt: skip
@click.option(
    "--prefix-share", default=0.0, show_default=True,
    help="Share of a prompt that several in a row begin with.",
)  # fmt: skip
@click.option("--prefix-requests", default=8, show_default=True, help="How many have it in common.")
@click.option(
    "--turns", default=1, show_default=True,
    help="Requests of a conversation, each with the answers so far.",
)  # fmt: skip
@click.option("--seed", type=int, help="Of arrivals and prompts; a new one when left out.")
@click.option(
    "--goodput", default="ttft:100,tpot:100", show_default=True, metavar="METRIC:MS[,...]",
    help="Objectives of a good request: ttft, tpot, e2el; or none.",
)  # fmt: skip
@click.option("--share", default=0.95, show_default=True, help="Fraction that must be good.")
@click.option("--key-file", metavar="FILE", help=f"File with the API key; else ${KEY}.")
@click.option("--cpus", metavar="LIST", help='CPUs for this client, such as "2-3".')
@click.option(
    "--reference", metavar="FILE", help="Golden answers that --keep wrote: it must agree."
)
@click.option("--keep", metavar="FILE", help="Write its golden answers there, if they are sound.")
@click.option("--json", metavar="FILE", help="Write everything there (- for stdout).")
@INVENTORY
@PASSWORD
@VERBOSE
@click.pass_context
def command(
    context: click.Context, /, targets: tuple[str, ...], inventory: Path | None, asks: bool,
    verbose: bool, **given: Any,
) -> int:  # fmt: skip
    """Measure latency: of the site's nodes as their inventory asks, or of any endpoint at URL.

    An endpoint's API key comes from a file or from the environment, never from the command line.
    """
    # Who names a model means an endpoint.
    named = [target for target in targets if "://" in target or given["model"]]
    url = named[0] if named else None
    if url is None:
        _refuse_options_of_endpoints(context, given)
        return run_entry("smoke.py", targets, inventory, verbose, asks)
    if len(targets) > 1 or inventory or asks or verbose:
        raise click.UsageError("a URL goes alone, without nodes, -i, -K and -v")
    if not given["model"]:
        raise click.UsageError("--model is not given: the name that the endpoint serves it by")
    options = SmokeOptions(url=url, **given)
    try:
        probe = _probe(options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    console.err(f"b200 smoke: {_foresight(probe)}")
    try:
        asyncio.run(probe.go())
    except KeyboardInterrupt:
        raise Refusal("interrupted; a part of a run is not reported", INTERRUPTED) from None
    document = probe.document()
    if options.keep and not probe.answers.keep(options.keep, probe.endpoint.url):
        console.err(f"b200 smoke: --keep {options.keep}: not written: {probe.answers.outcome}")
    if options.json:
        _write(document, options.json)
    if options.json != "-":
        console.out(*smoke_text.lines(document, probe.endpoint.url))
    return STATUS.get(str(document["verdict"]), 2)


def _refuse_options_of_endpoints(context: click.Context, names: Iterable[str]) -> None:
    """Nodes are measured as their inventory says."""
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} goes with a URL; nodes: see `smoke` of the inventory")


def _write(document: dict[str, Any], file: str) -> None:
    if file == "-":
        console.document(document)
    else:
        Path(file).write_text(json.dumps(document) + "\n")


def _foresight(probe: SmokeProbe) -> str:
    """What is about to be sent, and how long that takes at least."""
    arrival = probe.volley.arrival
    if arrival.concurrency or not arrival.rate:
        return f"{probe.requests} requests, {arrival.concurrency} at a time"
    seconds = probe.requests / arrival.rate
    return f"{probe.requests} requests in about {seconds:.0f} s, up to {ROUNDS} times if undecided"


def _probe(options: SmokeOptions) -> SmokeProbe:
    """The requested run, checked before anything is sent. Raises UsageError or ValueError."""
    for name in ("requests", "rate", "input_tokens", "output_tokens", "concurrency"):
        value = getattr(options, name)
        if value is not None and not 0 < value < float("inf"):
            raise click.UsageError(f"--{name.replace('_', '-')} must be above 0, not {value}")
    if options.rate is not None and options.concurrency is not None:
        raise click.UsageError("--rate and --concurrency exclude each other")
    _writable("--json", options.json)
    _writable("--keep", options.keep)
    target = endpoint(options.url, options.key_file, "smoke")
    cpus = client_health.pin(options.cpus)
    volley = Volley(
        options.model,
        options.input_tokens,
        options.output_tokens,
        Arrival(options.rate or RATE, options.arrival == "constant", options.concurrency),
        secrets.randbelow(1 << 31) if options.seed is None else options.seed,
        f"smoke-{secrets.token_hex(6)}",
        dataset=_dataset(options),
    )
    watch = client_health.Watch(client_health.claim_realtime())
    objective = _objective(options.goodput, options.share)
    answers = Answers(options.model, volley.salt, reference_in(options.reference))
    return SmokeProbe(target, volley, options.requests, objective, watch, cpus, answers)


def _dataset(options: SmokeOptions) -> Dataset:
    """What is sent. Raises UsageError, or ValueError."""
    try:
        source = dataset.source(options.prompts)
    except OSError as error:
        raise click.UsageError(f"--prompts {options.prompts}: {error.strerror}") from None
    return Dataset(source, options.prefix_share, options.prefix_requests, options.turns)


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


def _writable(option: str, file: str | None) -> None:
    """Refuse it before the run, not after it."""
    if file and file != "-" and not os.access(Path(file).parent, os.W_OK | os.X_OK):
        raise click.UsageError(f"{option} {file}: its directory cannot be written")
