"""The three answers that a host's record gives first: what is wrong, what to do, who serves."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.node.state import advice
from b200kit.report.content.findings import Finding, findings_of
from b200kit.report.content.serving import serving_line
from b200kit.report.document import clean, read
from b200kit.report.outcome import is_good, outcome_of

_NO_CAUSE = "unmeasured: no cause in the record"
_NOT_REACHED = "the run ended before its turn"


@dataclass(frozen=True, slots=True)
class First:
    """Texts, empty where a node is as requested; *finding* where the cause is one."""

    cause: str
    action: str
    serving: str
    finding: Finding | None


def first_of(host: object) -> First:
    """Return the answers; a cause that its findings name is that finding, with its action."""
    if is_good(host):
        return First("", "", "", None)
    error = read(host, "error")
    said = clean(error) if isinstance(error, str) else ""
    worst = next((f for f in findings_of(read(host, "verdict")) if f.blocks), None)
    if worst and (not said or said.startswith(worst.summary)):
        return First(worst.summary, worst.advice, serving_line(host), worst)
    word = outcome_of(host).word
    cause = said or (_NOT_REACHED if word == "not reached" else _NO_CAUSE)
    return First(cause, advice.of_outcome(word), serving_line(host), None)
