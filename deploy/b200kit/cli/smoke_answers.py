"""`b200 smoke`: the golden prompts, asked twice, compared with each other and a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from b200kit.node.client.chat import Endpoint
from b200kit.node.client.golden import reference
from b200kit.node.client.golden.ask import Replies, ask, ask_words
from b200kit.node.client.golden.compare import Likeness, compare
from b200kit.node.client.golden.reference import Reference
from b200kit.node.lib import documents, timestamp

TOKENS = 32


@dataclass
class Answers:
    """What an endpoint says to the golden prompts. reference: what it should say, if known."""

    model: str
    salt: str
    reference: Reference | None = None
    said: Replies = field(default_factory=Replies)
    problems: tuple[str, ...] = ()
    outcome: str = "no golden prompt was sent"

    @property
    def _tokens(self) -> int:
        return self.reference.tokens if self.reference else TOKENS

    async def ask(self, endpoint: Endpoint, ignore_eos: bool) -> None:
        """Twice, and judge them; once where the endpoint gives nothing to compare."""
        to = (endpoint, self.model, self._tokens)
        self.said = await ask(*to, self.salt, ignore_eos=ignore_eos)
        if self.said.unmeasured:
            words = await ask_words(*to, self.salt, ignore_eos=ignore_eos)
            self.problems = tuple(reference.problems(words, None))
            self.outcome = f"not compared: {self.said.unmeasured}"
            if self.reference and not self.problems:
                self.problems = (f"the reference cannot be compared with: {self.said.unmeasured}",)
            return
        again = await ask(*to, f"{self.salt}-again", ignore_eos=ignore_eos)
        self.problems = (*reference.problems(self.said, self.reference), *self._apart(again))
        self.outcome = "wrong" if self.problems else self._sound()

    def _apart(self, again: Replies) -> list[str]:
        """Why the second answers are others than the first ones."""
        if self.said.error:
            return []
        if again.error or again.unmeasured:
            return [again.error or again.unmeasured]
        found = compare(again.answers, self.said.answers)
        different = found.outcome is Likeness.DIFFERENT
        return [f"asked twice, it answers otherwise: {found.why}"] if different else []

    def _sound(self) -> str:
        if self.reference:
            return f"as the reference of {self.reference.of}, twice"
        return "twice alike; no reference to compare with"

    def keep(self, file: str, url: str) -> bool:
        """Write them as a reference, if they are sound. Raises OSError."""
        if self.problems or not self.said.answers:
            return False
        found = Reference(self.said.answers, self._tokens, f"{url}, {timestamp.now()}")
        Path(file).write_bytes(documents.to_bytes(found))
        return True

    def document(self) -> dict[str, Any]:
        """`golden` of the document of `b200 smoke`."""
        return {"outcome": self.outcome, "problems": list(self.problems)}


def reference_in(file: str | None) -> Reference | None:
    """What the answers must be, where a file says so. Raises ValueError for one that does not."""
    try:
        return documents.load(Reference, Path(file)) if file else None
    except (OSError, ValueError) as error:
        raise ValueError(f"--reference {error}") from None
