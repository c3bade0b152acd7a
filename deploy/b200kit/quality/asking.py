"""The same prompts to a reference and a candidate, greedily, one request at a time to each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice

from b200kit.node.client.chat import Endpoint
from b200kit.node.client.golden import answer as golden_answer
from b200kit.node.client.golden.answer import Answer
from b200kit.node.client.golden.ask import ask
from b200kit.node.client.golden.prompts import PROMPTS
from b200kit.node.client.http import HttpDeadlines
from b200kit.node.client.message import HttpError
from b200kit.node.client.prompts import PromptSource
from b200kit.node.lib.documents import LARGE, parse

TOP = 20
"""Likeliest tokens asked for beside each token: as many as vLLM gives by default."""
WORDS = (24, 120, 480)
"""Words of running text, in turn: what a narrow cache loses grows with the context."""
_DEADLINES = HttpDeadlines(connect=5, idle=120, total=300)
_CACHE = "vllm:cache_config_info{"
Progress = Callable[[int, int], None]


class NoAnswer(ValueError):
    """A server that cannot be compared; one line."""


@dataclass(frozen=True)
class ModelEndpoint:
    """Where a model is served, and by what name."""

    endpoint: Endpoint
    model: str


def prompts(source: PromptSource, count: int, longest: int) -> list[str]:
    """So many prompts: the golden ones, then texts of at most *longest* words."""
    texts = (
        source.text(min(words, longest), "quality", number)
        for number, words in enumerate(islice(cycle(WORDS), count))
    )
    return [*PROMPTS, *texts][:count]


async def answers(
    server: ModelEndpoint,
    asked: list[str],
    tokens: int,
    salt: str,
    progress: Progress | None = None,
) -> tuple[Answer, ...]:
    """An answer a prompt, each up to so many tokens. Raises NoAnswer."""
    said = await ask(
        server.endpoint, server.model, tokens, salt, prompts=asked, top=TOP, ignore_eos=False,
        deadlines=_DEADLINES, progress=progress,
    )  # fmt: skip
    wrong = said.error or said.unmeasured
    if not wrong and (stuck := golden_answer.degenerate(said.answers)):
        wrong = f"{stuck}: it does not read its prompts"
    if wrong:
        raise NoAnswer(f"{server.endpoint.url}: {wrong}")
    return said.answers


async def both(
    reference: ModelEndpoint, candidate: ModelEndpoint, asked: list[str], tokens: int, salt: str,
    progress: Progress,
) -> tuple[tuple[Answer, ...], ...]:  # fmt: skip
    """The reference's answers, the candidate's, and the reference's once more to a quarter.

    What two rounds of one server differ by is no loss of the other. Raises NoAnswer.
    """
    first, other = await asyncio.gather(
        answers(reference, asked, tokens, f"{salt}-reference"),
        answers(candidate, asked, tokens, f"{salt}-candidate", progress),
    )
    few = asked[: max(2, len(asked) // 4)]
    return first, other, await answers(reference, few, tokens, f"{salt}-again")


async def facts(server: ModelEndpoint) -> dict[str, str]:
    """What a server says of itself: url, model, and as far as it tells, root and kv_cache."""
    found = {"url": server.endpoint.url, "model": server.model}
    if root := _root(await _read(server.endpoint, "/v1/models"), server.model):
        found["root"] = root
    if word := _cache_word(await _read(server.endpoint, "/metrics")):
        found["kv_cache"] = word
    return found


async def _read(endpoint: Endpoint, path: str) -> str:
    """What is at a path; empty where nothing is to be had."""
    answer = await endpoint.get(path, HttpDeadlines(connect=5, idle=10, total=20))
    try:
        return answer.body().decode("utf-8", "replace") if answer.status == 200 else ""
    except (HttpError, ValueError):
        return ""


def _root(models: str, name: str) -> str:
    """`root` of a model: with vLLM the directory or repository that it was loaded from."""
    try:
        listed = parse(models, LARGE)["data"]
        return next(str(one["root"]) for one in listed if one["id"] == name)
    except (ValueError, KeyError, TypeError, StopIteration):
        return ""


def _cache_word(metrics: str) -> str:
    """`cache_dtype` of vllm:cache_config_info, a gauge whose labels are vLLM's settings."""
    line = next((one for one in metrics.splitlines() if one.startswith(_CACHE)), "")
    return line.partition('cache_dtype="')[2].partition('"')[0]
