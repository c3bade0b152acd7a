"""`correctness-check`: is a short answer right? The cheapest proof that a server serves.

Checks, in order: /v1/models names the model; a short deterministic answer is complete, with
finish_reason "length" and usage that counts exactly what was asked for, streamed and not; golden
prompts are answered as the node's reference does or, without one, are answers at all.
Prints one JSON document and exits 0 when all of it held, 1 when not, 2 for a bad configuration.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from b200kit.node.client.chat import ChatAnswer, ChatRequest, Endpoint, chat, server_message
from b200kit.node.client.golden import reference
from b200kit.node.client.golden.ask import ask
from b200kit.node.client.http import HttpDeadlines
from b200kit.node.client.message import HttpError
from b200kit.node.client.prompts import Scale, prompt
from b200kit.node.client.serving_config import ConfigError, ServingConfig, load
from b200kit.node.lib.documents import unstructure

TOKENS = 8
DEADLINES = HttpDeadlines(connect=5, idle=60, total=120)


@dataclass(frozen=True)
class CorrectnessResult:
    """What the correctness check found. problems: one line each, empty when all is right.

    scale: prompt tokens for words as this model counts them; same_text: whether two equal greedy
    requests gave equal text (reported, not judged: batching may change a near tie). ignores_eos:
    whether the server goes on to the requested length where it is asked to; one that refuses to
    be asked ends its answers where the model does.
    """

    schema: ClassVar[str] = "b200kit/correctness/2"

    problems: tuple[str, ...]
    scale: Scale
    same_text: bool
    engine_version: str | None
    ignores_eos: bool = True


async def check(endpoint: Endpoint, model: str, salt: str, max_model_len: int) -> CorrectnessResult:
    """Run the correctness check against one server."""
    problems = await models_problems(endpoint, model)
    if problems:
        return CorrectnessResult(tuple(problems), Scale(), False, None)
    long_words = max(24, min(200, max_model_len // 8))
    short = ChatRequest(model, prompt(12, "correctness", 0), TOKENS, salt=salt)
    first = await chat(endpoint, short, DEADLINES)
    while refused := _refused_by(first) - endpoint.refused:
        endpoint.refused.update(refused)
        short = replace(short, ignore_eos="ignore_eos" not in endpoint.refused)
        first = await chat(endpoint, short, DEADLINES)
    plain = replace(short, stream=False)
    long = replace(short, prompt=prompt(long_words, "correctness", 1))
    answers = [first, *[await chat(endpoint, each, DEADLINES) for each in (plain, long)]]
    problems = [line for answer in answers for line in answer_problems(answer)]
    counts = [answer.record().prompt_tokens or 0 for answer in answers]
    if not problems and counts[0] != counts[1]:
        problems = [f"usage counts {counts[0]} prompt tokens streamed and {counts[1]} not"]
    scale = Scale() if problems else Scale.through((12, counts[0]), (long_words, counts[2]))
    same = answers[0].text == answers[1].text
    engine = await version(endpoint)
    return CorrectnessResult(tuple(problems), scale, same, engine, short.ignore_eos)


async def check_and_read(
    endpoint: Endpoint, serving: ServingConfig, salt: str
) -> CorrectnessResult:
    """The correctness check against one of the node's servers, and what it says is read."""
    found = await check(endpoint, serving.model, salt, serving.max_model_len)
    tokens = serving.smoke.golden_tokens
    if found.problems or tokens == 0:
        return found
    to, eos = (endpoint, serving.model, tokens, salt), found.ignores_eos
    said = await ask(*to, ignore_eos=eos)
    if said.unmeasured:
        said = await ask(*to, ignore_eos=eos, as_words=True)
    return replace(found, problems=tuple(reference.problems(said, serving.reference())))


def _refused_by(answer: ChatAnswer) -> set[str]:
    """Members of the request's body beyond the API of OpenAI that a server takes offence at."""
    error = (answer.record().error or "") if answer.raw.code in (400, 422) else ""
    return {name for name in ("ignore_eos", "cache_salt") if name in error}


async def models_problems(endpoint: Endpoint, model: str) -> list[str]:
    """Whether /v1/models answers and names the model."""
    answer = await endpoint.get("/v1/models", DEADLINES)
    try:
        if answer.status != 200:
            return [f"/v1/models: {server_message(answer.status, answer.body(), answer.head[1])}"]
        names = [entry["id"] for entry in answer.document()["data"]]
    except (HttpError, ValueError, KeyError, TypeError) as error:
        return [f"/v1/models: {answer.fault or error or type(error).__name__}"]
    return [] if model in names else [f"/v1/models names {names}, not {model!r}"]


async def version(endpoint: Endpoint) -> str | None:
    """What /version says (vLLM), None when the server or a gateway in front does not answer."""
    answer = await endpoint.get("/version", HttpDeadlines(connect=2, idle=5, total=10))
    try:
        return str(answer.document()["version"]) if answer.status == 200 else None
    except (HttpError, ValueError, KeyError, TypeError):
        return None


def answer_problems(answer: ChatAnswer) -> list[str]:
    """What is wrong with one answer."""
    record, form = answer.record(), "streamed" if answer.request.stream else "not streamed"
    if record.error:
        return [f"correctness check ({form}): {record.error}"]
    reason = record.finish_reason
    if reason != "length" and answer.request.ignore_eos:
        return [f"correctness check ({form}): finish_reason is {reason!r}, not 'length'"]
    return []


def main(args: list[str]) -> int:
    """`correctness-check --config FILE [--replica I]`."""
    parser = argparse.ArgumentParser(prog="correctness-check", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--replica", type=int, help="ask this replica, not the gateway")
    options = parser.parse_args(args)
    try:
        serving = load(options.config)
        whole = options.replica is None
        url = serving.gateway if whole else serving.replica(options.replica).url
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    endpoint = serving.endpoint(url)
    found = asyncio.run(check_and_read(endpoint, serving, f"correctness-{secrets.token_hex(6)}"))
    print(json.dumps(unstructure(found)))
    return 1 if found.problems else 0
