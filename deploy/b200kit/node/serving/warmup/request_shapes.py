"""The ladder of a warm-up: every shape of request that a server will meet, as data.

What is compiled lazily follows from the shape of a batch and from what is asked of the sampler
(vLLM 0.33: Triton helpers, the grammar backend, log probabilities), so a round sends: short
prompts; the whole prefill budget and the whole context; a ladder of concurrency (graph sizes, the
sampler); greedy and sampled; a JSON schema and a tool where the server has them; streamed and not;
log probabilities; and the production system prompts last.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from b200kit.node.client.chat import ChatRequest
from b200kit.node.client.prompts import prompt
from b200kit.node.state.warmup_features import LOGPROBS, STRUCTURED, TOOLS

TOKENS = 16
SHORT_WORDS = 24
# Ids below are bytes and special tokens in the usual vocabularies, and every vocabulary is larger.
_TOKEN_IDS = (300, 1300)
_SCHEMA = {
    "type": "object",
    "properties": {"river": {"type": "string", "maxLength": 8}, "bends": {"type": "boolean"}},
    "required": ["river", "bends"],
    "additionalProperties": False,
}
_FORMAT = {"type": "json_schema", "json_schema": {"name": "warm", "schema": _SCHEMA}}
_TOOL = {"type": "function", "function": {"name": "river", "parameters": _SCHEMA}}
_TOP_P: dict[str, object] = {"top_p": 0.9}


@dataclass(frozen=True)
class EngineLimits:
    """What the server was configured for: sequences, tokens a scheduler step, tokens a context."""

    max_num_seqs: int
    max_batched: int
    max_model_len: int


@dataclass(frozen=True)
class RequestShape:
    """One kind of request in a round, sent `count` times at once.

    tokens: a prompt of exactly so many tokens instead of a few words. ends: it may end before it
    has all its tokens. system: it begins with this text, and has no cache salt, so that the text
    stays in the prefix cache for whoever begins with it.
    """

    name: str
    count: int = 1
    tokens: int = 0
    temperature: float = 0.0
    stream: bool = True
    ends: bool = False
    system: str | None = None
    extra: dict[str, object] = field(default_factory=dict)

    def request(self, model: str, salt: str, seed: str, number: int) -> ChatRequest:
        """One request of this shape; no other seed or number gives the same prompt."""
        return ChatRequest(
            model,
            prompt(SHORT_WORDS, seed, number),
            TOKENS,
            temperature=self.temperature,
            stream=self.stream,
            ignore_eos=not self.ends,
            salt=None if self.system else salt,
            extra=self.extra,
            system=self.system,
            token_ids=token_ids(self.tokens, f"{seed}/{number}"),
        )


def token_ids(count: int, seed: str) -> tuple[int, ...]:
    """A prompt of exactly `count` tokens that differs from its first one on."""
    chooser = random.Random(seed)  # noqa: S311 (variety, not secrecy)
    return tuple(chooser.choices(range(*_TOKEN_IDS), k=count))


def ladder(most: int) -> list[int]:
    """1, 2, 4 and so on up to `most` itself."""
    return [*(1 << step for step in range((most - 1).bit_length())), most]


def shapes(
    limits: EngineLimits, features: Sequence[str], systems: Sequence[str]
) -> list[RequestShape]:
    """All shapes of one round, in the order they are sent."""
    longest = max(1, limits.max_model_len - TOKENS)
    return [
        RequestShape("short"),
        RequestShape("short, not streamed", stream=False),
        _budget(limits, longest),
        RequestShape("the whole context", tokens=longest),
        *(RequestShape(f"{count} at once", count) for count in ladder(max(1, limits.max_num_seqs))),
        RequestShape("sampled", 2, temperature=0.8, extra=_TOP_P),
        RequestShape("long, sampled", 2, max(1, longest // 2), temperature=0.8, extra=_TOP_P),
        *(shape for feature, shape in _OPTIONAL.items() if feature in features),
        *(RequestShape(f"system prompt {n}", system=text) for n, text in enumerate(systems)),
    ]


_OPTIONAL = {
    STRUCTURED: RequestShape(
        "structured output", stream=False, ends=True, extra={"response_format": _FORMAT}
    ),
    TOOLS: RequestShape(
        "tool call", stream=False, ends=True, extra={"tools": [_TOOL], "tool_choice": "auto"}
    ),
    LOGPROBS: RequestShape("log probabilities", extra={"logprobs": True, "top_logprobs": 1}),
}


def _budget(limits: EngineLimits, longest: int) -> RequestShape:
    """The prefill budget of one scheduler step: one prompt, or several that fill it together."""
    count = min(math.ceil(limits.max_batched / longest), max(1, limits.max_num_seqs))
    tokens = min(longest, math.ceil(limits.max_batched / count))
    return RequestShape("the whole prefill budget", count, tokens=tokens)
