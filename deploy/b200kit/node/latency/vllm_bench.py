"""`bench`: the real `vllm bench serve` of this node's engine at the gateway, as one JSON document.

Prints {"unmeasured": reason} where there is none to run, such as with the stand-in engine; exit 0
whatever it says, 2 for a configuration that cannot be used. The API key goes through the client's
environment, which only root can read, never through its arguments.

What the commands that people copy get wrong (vLLM 0.32 and 0.33, vllm/benchmarks/serve.py):

- `--backend openai-chat` needs `--endpoint /v1/chat/completions`: the default is /v1/completions.
- Without `--ignore-eos` an answer ends where the model likes, and 64 output tokens are not 64.
- Without a new `--seed` the prompts of the last run are in the prefix cache; `cache_salt` keeps
  them apart even so.
- `--temperature` is the model's own unless it is given.
- A cap (`--max-concurrency`) hides waiting: it is left out, or so high that it never binds, which
  makes newer versions report how long requests waited in the client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from b200kit.node.client import client_health, correctness
from b200kit.node.client.serving_config import ConfigError, Serving, load
from b200kit.node.lib import documents
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.view import Unmeasured

_SOURCE = "lib/python*/site-packages/vllm/benchmarks/serve.py"
# What it may take beyond the sending itself: to import torch, to tokenize, to end.
_BESIDE_S = 240


class NoBench(Exception):
    """Why `vllm bench serve` was not run or has no result, in one line."""


def source(engine: Path) -> str:
    """The benchmark's own source, which shows its options at once. Raises NoBench."""
    found = sorted(engine.glob(_SOURCE))
    if not found or not (engine / "bin" / "vllm").exists():
        raise NoBench("this engine has no `vllm bench serve`")
    text = found[-1].read_text(encoding="utf-8", errors="replace")
    problem = missing_options(text)
    if problem:
        raise NoBench(problem)
    return text


def run(serving: Serving, options: argparse.Namespace) -> BenchFigures:
    """Run it once and keep its figures. Raises NoBench."""
    if serving.stand_in:
        raise NoBench("the engine is a stand-in, which has no `vllm bench serve`")
    text = source(options.engine)
    with tempfile.TemporaryDirectory(prefix="b200kit-bench-") as folder:
        result = Path(folder) / "result.json"
        words = arguments(_ask(serving, options, str(result)), text)
        command = [str(options.engine / "bin" / "vllm"), "bench", "serve", *words]
        output = _execute(command, serving, options.requests / options.rate + _BESIDE_S)
        try:
            said = documents.structure(documents.Object, documents.read(result, documents.LARGE))
            return retained(said, command)
        except (OSError, ValueError):
            raise NoBench(f"`vllm bench serve` left no result: {output}") from None


def _ask(serving: Serving, options: argparse.Namespace, result: str) -> Ask:
    # Its prompts get the chat template on top; ours are calibrated to the whole.
    tokens = max(1, options.input_tokens - round(_template(serving)))
    objective = asdict(serving.smoke.goodput)
    return Ask(
        url=serving.gateway,
        model=serving.model,
        tokenizer=str(options.model),
        rate=options.rate,
        requests=options.requests,
        input_tokens=tokens,
        output_tokens=options.output_tokens,
        seed=secrets.randbelow(1 << 31),
        salt=f"bench-{secrets.token_hex(6)}",
        objective={k: v for k, v in objective.items() if k.endswith("_ms") and v},
        result=result,
    )


def _template(serving: Serving) -> float:
    """Tokens that the chat template adds to a prompt, by the correctness check. Raises NoBench."""
    endpoint, salt = serving.endpoint(serving.gateway), f"bench-{secrets.token_hex(6)}"
    found = asyncio.run(correctness.check(endpoint, serving.model, salt, serving.max_model_len))
    if found.problems:
        raise NoBench(f"the correctness check failed before it: {found.problems[0]}")
    return found.scale.overhead


def _execute(command: list[str], serving: Serving, within_s: float) -> str:
    """Run it as our client runs: real-time where permitted; returns its last line."""
    # Round robin at the lowest real-time priority, as b200kit/node/client/client_health.py asks for
    # itself.
    first = ["chrt", "-R", "-r", "1"] if client_health.claim_realtime() == "rr" else []
    own = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    if serving.api_key:
        own["OPENAI_API_KEY"] = serving.api_key
    if serving.gateway_trust:
        own["SSL_CERT_FILE"] = serving.gateway_trust
    try:
        done = subprocess.run(
            [*first, *command], env=os.environ | own, capture_output=True, text=True,
            errors="replace", stdin=subprocess.DEVNULL, timeout=within_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NoBench(f"`vllm bench serve` was not done in {within_s:.0f} s") from None
    except OSError as error:
        raise NoBench(f"`vllm bench serve` cannot be run: {error}") from None
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    last = lines[-1][:200] if lines else "no output"
    if done.returncode:
        raise NoBench(f"`vllm bench serve` exited with {done.returncode}: {last}")
    return last


def _options(args: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--engine", type=Path, required=True, help="the engine's directory")
    parser.add_argument("--model", type=Path, required=True, help="its files, for the tokenizer")
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--input-tokens", type=int, required=True)
    parser.add_argument("--output-tokens", type=int, required=True)
    return parser.parse_args(args)


def main(args: list[str]) -> int:
    """`bench --config FILE --engine DIR --model DIR --requests N --rate R ...`."""
    options = _options(args)
    try:
        serving = load(options.config)
        client_health.pin(serving.client_cpus)
    except (ConfigError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    found: Unmeasured | BenchFigures
    try:
        found = run(serving, options)
    except NoBench as reason:
        found = Unmeasured(str(reason))
    print(json.dumps(unstructure(found)))
    return 0


METRICS = ("ttft", "tpot", "itl", "e2el")
QUEUES = ("client_queue_time", "e2el_including_client_queue")
ENDPOINT = "/v1/chat/completions"
WARMUPS = 2


@dataclass(frozen=True)
class Ask:
    """One measurement. url: without /v1. tokenizer: the model's directory. objective: in ms."""

    url: str
    model: str
    tokenizer: str
    rate: float
    requests: int
    input_tokens: int
    output_tokens: int
    seed: int
    salt: str
    objective: Mapping[str, float]
    result: str


def missing_options(source: str) -> str:
    """Why this version cannot be used, by the source of its benchmarks/serve.py; "" when it can."""
    needed = ("--endpoint", "--ignore-eos", "--percentile-metrics", "--goodput", "--save-result")
    missing = [flag for flag in needed if f'"{flag}"' not in source]
    return f"its `vllm bench serve` has no {missing[0]}" if missing else ""


def arguments(ask: Ask, source: str) -> list[str]:
    """The words after `vllm bench serve`; options that the version does not have are left out."""
    queues = QUEUES if all(f'"{name}"' in source for name in QUEUES) else ()
    goodput = [f"{name.removesuffix('_ms')}:{ms:g}" for name, ms in ask.objective.items()]
    words: list[object] = ["--backend", "openai-chat", "--endpoint", ENDPOINT]
    words += ["--base-url", ask.url, "--model", ask.model, "--tokenizer", ask.tokenizer]
    words += ["--dataset-name", "random", "--random-input-len", ask.input_tokens]
    words += ["--random-output-len", ask.output_tokens, "--ignore-eos", "--temperature", 0]
    words += ["--request-rate", f"{ask.rate:g}", "--num-prompts", ask.requests]
    words += ["--max-concurrency", ask.requests] if queues else []
    words += ["--seed", ask.seed, "--percentile-metrics", ",".join((*METRICS, *queues))]
    words += ["--metric-percentiles", "50,90,95,99"]
    words += ["--goodput", *goodput] if goodput else []
    words += _where_known(source, "--num-warmups", WARMUPS)
    words += _where_known(source, "--ready-check-timeout-sec", 60)
    words += _where_known(source, "--extra-body", json.dumps({"cache_salt": ask.salt}))
    words += _where_known(source, "--disable-tqdm")
    words += ["--save-result", "--result-filename", ask.result]
    return [str(word) for word in words]


def _where_known(source: str, flag: str, *value: object) -> list[object]:
    return [flag, *value] if f'"{flag}"' in source else []


@dataclass(frozen=True)
class BenchFigures:
    """What `vllm bench serve` measured: its plain figures by its own names, and its command."""

    figures: Mapping[str, str | int | float | bool | None]
    command: tuple[str, ...]

    def median_ms(self, metric: str) -> float | None:
        """The median of one of METRICS; its versions use either of the names."""
        names = (f"p50_{metric}_ms", f"median_{metric}_ms")
        found = (self.figures.get(name) for name in names)
        return next((float(one) for one in found if isinstance(one, int | float)), None)


def retained(result: Mapping[str, Any], command: Sequence[str]) -> BenchFigures:
    """Its result without the series of single requests, and the command that made it."""
    plain = {k: v for k, v in result.items() if isinstance(v, str | int | float) or v is None}
    return BenchFigures(plain, tuple(command))
