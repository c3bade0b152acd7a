"""Our client and the real `vllm bench serve` count the same where text and tokens differ.

A player sends the same streams, each by its own schedule, to one after the other. Counts are equal,
or differ by what the version at hand (0.32.0) counts otherwise: each chunk with a choice, so that
one with a role alone and an empty end are tokens to it, and to 0.33.0 and us are none.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import dataclass
from statistics import median
from typing import Any

import pytest

from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import ChatAnswer, ChatRequest, Endpoint, chat
from b200kit.node.client.formulas import timing
from tests.bench.pair import environment
from tests.bench.side_by_side import pair_of
from tests.e2e.driving import Outcome
from tests.lab.paths import BRIDGE_ADDRESS
from tests.unit.node.client.scores import (
    DONE,
    HEAD,
    LAST,
    ROLE,
    Score,
    delta,
    framed,
    playing,
    usage,
)

pytestmark = pytest.mark.real_engine

ROUNDS, RATE = 4, 10.0
FIRST_S, GAP_S = 0.8, 0.3


@dataclass(frozen=True)
class Stream:
    """Chunks that come one by one; tokens: what usage says, another number for each stream.

    more: gaps that 0.32.0 counts besides; first: whether both take the same chunk for the first.
    """

    chunks: tuple[str, ...]
    tokens: int
    gaps: int
    more: int = 0
    first: bool = True

    def score(self, name: str) -> dict[str, object]:
        """As the player takes it."""
        times = [FIRST_S + GAP_S * n for n in range(len(self.chunks))]
        steps: Score = [[at, framed(one)] for at, one in zip(times, self.chunks, strict=True)]
        end = framed(usage(self.tokens)) + framed(DONE) + LAST
        return {"name": name, "steps": [[0.0, HEAD], *steps, [times[-1], end], [times[-1], "end"]]}


def words(*texts: str) -> tuple[str, ...]:
    """Chunks of content; the first has the role, too."""
    return tuple(
        delta(content=text, **({} if n else {"role": "assistant"})) for n, text in enumerate(texts)
    )


def ended(*before: str) -> tuple[str, ...]:
    """These chunks, and one that ends the answer with a last word."""
    return (*before, delta("length", content="c"))


STREAMS = {
    "several tokens a chunk": Stream(ended(*words("one two ", "three four five ")), 11, 2),
    "tokens without text": Stream(ended(*words("a", "", "", "b")), 5, 4),
    "reasoning": Stream(ended(*(delta(reasoning=word) for word in "xyz")), 4, 3),
    "letters of several bytes": Stream(ended(*words("é", "漢字", "\u2028")), 9, 3),
    "role alone": Stream(ended(ROLE, delta(content="b")), 2, 1, 1, first=False),
    "empty end": Stream((*words("a", "b", "c"), delta("length")), 3, 2, 1),
}
SCORES = [stream.score(name) for name, stream in STREAMS.items()]
BY_TOKENS = {stream.tokens: name for name, stream in STREAMS.items()}


@dataclass(frozen=True)
class Counted:
    """What a client says of one stream: gaps, and seconds to the first token and from there on."""

    gaps: int
    ttft: float
    rest: float


Found = dict[str, list[Counted]]


async def ours(url: str) -> Found:
    """By our client."""
    extra: dict[str, object] = {"scores": SCORES}

    async def send(number: int, due: float) -> ChatAnswer:
        # What usage says is another number for each stream, and none of them was asked for.
        request = ChatRequest("tiny", f"play {number}", 64, ignore_eos=False, extra=extra)
        return await chat(Endpoint(url), request, None, due)

    answers = await Arrival(RATE).run(ROUNDS * len(STREAMS), 0, send)
    records = [answer.record() for answer in answers]
    found: Found = {name: [] for name in STREAMS}
    for record in records:
        seen = timing(record)
        assert seen is not None, record.error
        name = BY_TOKENS[record.completion_tokens or 0]
        found[name].append(Counted(len(seen.gaps), seen.ttft, sum(seen.gaps)))
    return found


def theirs(url: str) -> Found:
    """By `vllm bench serve` of the node's engine, in the node."""
    pair = pair_of()
    command = [*pair.bench(url), "--num-prompts", str(ROUNDS * len(STREAMS))]
    command += ["--request-rate", f"{RATE:g}", "--extra-body", json.dumps({"scores": SCORES})]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    document: dict[str, Any] = json.loads(pair.seen.read_text())
    found: Found = {name: [] for name in STREAMS}
    for tokens, ttft, gaps in zip(
        document["output_lens"], document["ttfts"], document["itls"], strict=True
    ):
        found[BY_TOKENS[tokens]].append(Counted(len(gaps), ttft, sum(gaps)))
    assert document["total_output_tokens"] == ROUNDS * sum(BY_TOKENS)
    return found


@pytest.fixture(scope="module")
def both(real: Outcome) -> tuple[Found, Found]:
    """What either says of the same streams."""
    with playing(address=BRIDGE_ADDRESS) as url:
        return asyncio.run(ours(url)), theirs(url)


def test_each_stream_was_seen_as_often_by_both(both: tuple[Found, Found]) -> None:
    for found in both:
        assert {name: len(seen) for name, seen in found.items()} == dict.fromkeys(STREAMS, ROUNDS)


def test_gaps_are_counted_alike_or_differ_by_the_rule_that_changed(
    both: tuple[Found, Found],
) -> None:
    own, other = both
    for name, stream in STREAMS.items():
        print(name, [each.gaps for each in own[name]], [each.gaps for each in other[name]])
        assert {each.gaps for each in own[name]} == {stream.gaps}, name
        assert {each.gaps for each in other[name]} == {stream.gaps + stream.more}, name


def test_times_of_the_same_streams_agree(both: tuple[Found, Found]) -> None:
    for name, stream in STREAMS.items():
        firsts = [median(each.ttft for each in of[name]) for of in both]
        rests = [median(each.rest for each in of[name]) for of in both]
        print(name, "TTFT", firsts, "from there to the last", rests)
        if stream.first:
            assert firsts[0] == pytest.approx(firsts[1], rel=0.25), name
        if not stream.more:
            assert rests[0] == pytest.approx(rests[1], rel=0.25), name
