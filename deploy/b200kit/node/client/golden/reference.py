"""A kept reference of golden answers, as one file, and a server's answers held against it.

The smoke test leaves one on the node for what is served there. Where none holds, only what is no
answer at all is found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from b200kit.node.client.golden import answer as golden_answer
from b200kit.node.client.golden.answer import Answer
from b200kit.node.client.golden.ask import Replies
from b200kit.node.client.golden.compare import Likeness, compare
from b200kit.node.client.golden.prompts import PROMPTS, SET, TOLERANCE
from b200kit.node.lib import documents
from b200kit.node.lib.documents import NEEDED, Range

PATH = "/var/lib/b200kit/golden.json"
"""Where the smoke test leaves the node's own."""


@dataclass(frozen=True)
class Reference:
    """Answers to all golden prompts. tokens: asked for each; of: whose they are, and when.

    holds_for: names the configuration they were given under.
    """

    schema: ClassVar[str] = "b200kit/golden/1"
    most_bytes: ClassVar[int] = documents.LARGE

    answers: tuple[Answer, ...]
    tokens: int
    of: str
    holds_for: str = ""
    tolerance: Annotated[float, Range(0, above=True)] = field(default=TOLERANCE, metadata=NEEDED)
    set: str = field(default=SET, metadata=NEEDED)

    def __post_init__(self) -> None:
        """Raise ValueError where it does not answer these very prompts."""
        if self.set != SET:
            raise ValueError(f"it answers the prompts {self.set!r}, not {SET!r}")
        if len(self.answers) != len(PROMPTS) or not all(self.answers):
            raise ValueError("it does not answer every golden prompt")

    def fault(self, answers: tuple[Answer, ...], prompt: int | None = None) -> str:
        """Why these are other answers, to all prompts or to one; empty where they are not.

        Drift is none: a server that was started again may round differently (golden/prompts.py).
        """
        kept = self.answers if prompt is None else self.answers[prompt : prompt + 1]
        found = compare(answers, kept, self.tolerance)
        if found.outcome is not Likeness.DIFFERENT:
            return ""
        return f"answers otherwise than the reference of {self.of}: {found.why}"


def of_node(holds_for: str, tokens: int) -> Reference | None:
    """The node's own for this configuration and number of tokens; None where there is none.

    One that cannot be read is none: the next smoke test writes it again.
    """
    found = documents.remembered(Reference, Path(PATH)) if holds_for else None
    return found if found and (found.holds_for, found.tokens) == (holds_for, tokens) else None


def problems(said: Replies, reference: Reference | None) -> list[str]:
    """What is wrong with a server's answers, a line each; nothing where they could not be had."""
    if said.error:
        return [said.error]
    if not said.answers:
        return []
    if reference:
        fault = reference.fault(said.answers)
        return [fault] if fault else []
    stuck = golden_answer.degenerate(said.answers)
    return [f"{stuck}: it does not read its prompts"] if stuck else []
