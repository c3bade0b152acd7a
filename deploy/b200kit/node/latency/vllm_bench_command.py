"""A correct `vllm bench serve` command, for the version at hand. Pure.

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

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


def retained(result: Mapping[str, Any], command: Sequence[str]) -> dict[str, Any]:
    """Its result without the series of single requests, and the command that made it."""
    plain = {k: v for k, v in result.items() if isinstance(v, str | int | float) or v is None}
    return {**plain, "command": list(command)}
