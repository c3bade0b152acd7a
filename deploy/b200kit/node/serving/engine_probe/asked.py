"""What a probe is asked about, and how a step says what it found. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

LOOK = "systemctl cat vllm@{replica}.service shows who changed it, b200 deploy writes ours"


@dataclass(frozen=True)
class ProbeRequest:
    """One replica: *kind* is what it computes on, *address* where its *ranks* on this node meet.

    *environment* is the unit's own.
    """

    replica: int
    kind: str
    ranks: int
    address: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def on_gpus(self) -> bool:
        """Whether CUDA is needed."""
        return self.kind == "cuda"

    def unit(self, fault: str) -> str:
        """A remedy where a line of the unit is at fault."""
        return f"{fault}: {LOOK.format(replica=self.replica)}"


class ProbeFault(Exception):
    """A step failed: what was seen, and what to do."""

    def __init__(self, seen: str, remedy: str) -> None:
        super().__init__(seen)
        self.seen, self.remedy = seen, remedy


class ProbeNotApplicable(Exception):
    """The engine does not need it; the text says why."""
