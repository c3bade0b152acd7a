"""`bench`: the real `vllm bench serve` of this node's engine at the gateway, as one JSON document.

Prints {"unmeasured": reason} where there is none to run, such as with the stand-in engine; exit 0
whatever it says, 2 for a configuration that cannot be used. The API key goes through the client's
environment, which only root can read, never through its arguments.
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
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from b200kit.node.client import client_health, correctness
from b200kit.node.client.serving_config import ConfigError, Serving, load
from b200kit.node.latency import vllm_bench_command
from b200kit.node.latency.vllm_bench_command import Ask
from b200kit.node.lib import documents
from b200kit.node.lib.readings import unmeasured

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
    problem = vllm_bench_command.missing_options(text)
    if problem:
        raise NoBench(problem)
    return text


def run(serving: Serving, options: argparse.Namespace) -> dict[str, object]:
    """Run it once and keep its figures. Raises NoBench."""
    if serving.stand_in:
        raise NoBench("the engine is a stand-in, which has no `vllm bench serve`")
    text = source(options.engine)
    with tempfile.TemporaryDirectory(prefix="b200kit-bench-") as folder:
        result = Path(folder) / "result.json"
        words = vllm_bench_command.arguments(_ask(serving, options, str(result)), text)
        command = [str(options.engine / "bin" / "vllm"), "bench", "serve", *words]
        output = _execute(command, serving, options.requests / options.rate + _BESIDE_S)
        try:
            said = documents.structure(documents.Object, documents.read(result, documents.LARGE))
            return vllm_bench_command.retained(said, command)
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
    found: Mapping[str, object]
    try:
        found = run(serving, options)
    except NoBench as reason:
        found = unmeasured(str(reason))
    print(json.dumps(found))
    return 0
