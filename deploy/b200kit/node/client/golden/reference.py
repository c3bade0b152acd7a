"""A kept reference of golden answers, as one file, and a server's answers held against it.

The smoke test leaves one on the node for what is served there; `b200 smoke --keep` leaves one for
any endpoint. Where none holds, only what is no answer at all is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b200kit.node.client.golden import answer as golden_answer
from b200kit.node.client.golden.answer import Answer
from b200kit.node.client.golden.ask import Replies
from b200kit.node.client.golden.compare import Likeness, compare
from b200kit.node.client.golden.prompts import PROMPTS, SET, TOLERANCE
from b200kit.node.lib import documents

SCHEMA = "b200kit/golden/1"
PATH = "/var/lib/b200kit/golden.json"
"""Where the smoke test leaves the node's own."""


@dataclass(frozen=True)
class Reference:
    """Answers to all golden prompts. tokens: asked for each; of: whose they are, and when.

    holds_for: names the configuration they were given under; empty for an endpoint's.
    """

    answers: tuple[Answer, ...]
    tokens: int
    of: str
    holds_for: str = ""
    tolerance: float = TOLERANCE

    def document(self) -> dict[str, Any]:
        """As a file keeps it."""
        return {
            "schema": SCHEMA,
            "set": SET,
            "holds_for": self.holds_for,
            "of": self.of,
            "tokens": self.tokens,
            "tolerance": self.tolerance,
            "answers": golden_answer.document(self.answers),
        }

    def fault(self, answers: tuple[Answer, ...], prompt: int | None = None) -> str:
        """Why these are other answers, to all prompts or to one; empty where they are not.

        Drift is none: a server that was started again may round differently (golden/prompts.py).
        """
        kept = self.answers if prompt is None else self.answers[prompt : prompt + 1]
        found = compare(answers, kept, self.tolerance)
        if found.likeness is not Likeness.DIFFERENT:
            return ""
        return f"answers otherwise than the reference of {self.of}: {found.words}"


def parsed(document: object) -> Reference:
    """A reference from its document. Raises ValueError for what is none."""
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise ValueError(f"no document of schema {SCHEMA}")
    if document.get("set") != SET:
        raise ValueError(f"it answers the prompts {document.get('set')!r}, not {SET!r}")
    answers = golden_answer.restored(document.get("answers"))
    tokens, tolerance = document.get("tokens"), document.get("tolerance")
    if len(answers) != len(PROMPTS) or not isinstance(tokens, int):
        raise ValueError("it does not answer every golden prompt")
    if not isinstance(tolerance, int | float) or tolerance <= 0:
        raise ValueError(f"its tolerance is {tolerance!r}")
    of, holds_for = str(document.get("of")), str(document.get("holds_for") or "")
    return Reference(answers, tokens, of, holds_for, float(tolerance))


def read(path: Path) -> Reference:
    """The reference in a file. Raises OSError, and ValueError for a file that holds none."""
    return parsed(documents.read(path, documents.LARGE))


def of_node(holds_for: str, tokens: int) -> Reference | None:
    """The node's own for this configuration and number of tokens; None where there is none.

    One that cannot be read is none: the next smoke test writes it again.
    """
    try:
        found = read(Path(PATH))
    except (OSError, ValueError):
        return None
    holds = bool(holds_for) and (found.holds_for, found.tokens) == (holds_for, tokens)
    return found if holds else None


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
