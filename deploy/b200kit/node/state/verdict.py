"""Findings, the ladder of actions, and the verdict they add up to. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import ClassVar, Literal

from b200kit.node.lib import documents
from b200kit.node.lib.documents import NEEDED

_INDEX = re.compile(r"\[[0-9]+\]")


class Action(IntEnum):
    """What to do about a finding, in rising order of cost."""

    NONE = 0
    MONITOR = 1
    RESTART_SERVICE = 2
    RESET_GPU = 3
    REBOOT = 4
    POWER_CYCLE = 5
    REPLACE = 6

    @property
    def word(self) -> str:
        """As documents and people write it: "reset-gpu"."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def parse(cls, word: object) -> Action:
        """The action of a word; what is not on the ladder asks for eyes, so it is MONITOR."""
        return next((action for action in cls if action.word == word), cls.MONITOR)


class Status(str, Enum):
    """State of one finding. Only PASS and WAIVED let a node go live."""

    PASS = "pass"  # noqa: S105 - a verdict, no password
    FAIL = "fail"
    UNMEASURED = "unmeasured"
    WAIVED = "waived"


Fit = Literal["fit", "unfit", "unmeasured"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what was read, what was expected, and what to do.

    `subjects`: all it is about by name, where that is more than its subject: GPUs, or pairs of
    them. `kind`: which of its check's faults it is, where that has several; in no document.
    `remedy`: what to do, where the action's own words do not say it.
    """

    summary: str
    status: Status = field(default=Status.PASS, metadata=NEEDED)
    subject: str = "node"
    read: str = ""
    expected: str = ""
    source: str = ""
    action: Action = Action.NONE
    part: str = ""
    check: str = ""
    waiver: dict[str, str] | None = None
    subjects: tuple[str, ...] = ()
    remedy: str = ""
    kind: str = field(default="", compare=False, metadata={"document": False})

    @property
    def blocks(self) -> bool:
        """Whether this keeps the node from going live."""
        return self.status in (Status.FAIL, Status.UNMEASURED)

    def with_check(self, check: str) -> Finding:
        """The same as a finding of a check. `replace` would take a tenth of a judgement."""
        found = object.__new__(Finding)
        found.__dict__.update(self.__dict__, check=check)
        return found


@dataclass(frozen=True)
class Verdict:
    """All findings of one judgement.

    `not_applicable` has the checks that ask for what the hardware does not have, each with why.
    """

    schema: ClassVar[str] = "b200kit/verdict/1"
    derived: ClassVar[tuple[str, ...]] = ("fit", "counts")
    most_bytes: ClassVar[int] = 4 << 20

    findings: tuple[Finding, ...] = field(default=(), metadata=NEEDED)
    not_applicable: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        tally = Counter(finding.status for finding in self.findings)
        counts = {status.value: tally[status] for status in Status}
        object.__setattr__(self, "counts", counts)

    @property
    def fit(self) -> Fit:
        """ "fit", "unfit" or "unmeasured"; no findings at all is unmeasured, never fit."""
        if self.counts["fail"]:
            return "unfit"
        if self.counts["unmeasured"] or not self.findings:
            return "unmeasured"
        return "fit"

    @property
    def exit_status(self) -> int:
        """0 fit, 1 unfit, 2 not measured."""
        return {"fit": 0, "unfit": 1}.get(self.fit, 2)

    @property
    def blocking(self) -> list[Finding]:
        """What keeps the node from going live: failures first, each kind from cause to symptom.

        The checks run in that order: a fabric that is not up comes before the P2P that needs it.
        """
        found = [finding for finding in self.findings if finding.blocks]
        return sorted(found, key=lambda finding: finding.status is not Status.FAIL)


@dataclass(frozen=True)
class GateVerdict(Verdict):
    """The gate's of a boot, as it lies on the node: when, of which boot, seconds since it began."""

    taken_at: str = field(default="", metadata=NEEDED)
    boot_id: str = field(default="", metadata=NEEDED)
    boot_s: float = field(default=0.0, metadata=NEEDED)


def finding_of(entry: object) -> Finding:
    """The finding of a log; what is none is unmeasured, never a pass."""
    try:
        return documents.structure(Finding, entry)
    except documents.Malformed as error:
        return Finding(f"a finding could not be read: {error}", Status.UNMEASURED)


def waiver_line(check: str) -> str:
    """The line of an inventory by which a site lets one check be, to be filled in."""
    words = f'"check": "{check}", "owner": "YOU", "reason": "WHY", "until": "YYYY-MM-DD"'
    return f"waivers = [{{{words}}}]"


def cause(read: str) -> str:
    """What was read, without which entry of a list it was: eight GPUs lack a key for one reason."""
    return _INDEX.sub("[*]", read)


def grouped(findings: Iterable[Finding]) -> list[tuple[Finding, int]]:
    """Findings with those of one unmeasured cause reported once: the first, and how many more."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for number, finding in enumerate(findings):
        unread = finding.status is Status.UNMEASURED and finding.read
        key = ("unmeasured", cause(finding.read)) if unread else ("own", str(number))
        groups.setdefault(key, []).append(finding)
    return [(group[0], len(group) - 1) for group in groups.values()]
