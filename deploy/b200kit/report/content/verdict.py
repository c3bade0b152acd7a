"""What is wrong with a node, what to do, who serves: a verdict as all views show it.

What blocks stands first, one action is requested once, and what is alike stands together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from b200kit.node.lib import cpulist
from b200kit.node.lib.documents import Malformed, structure
from b200kit.node.state import advice
from b200kit.node.state.verdict import Finding, Status, Verdict, cause
from b200kit.report.document import (
    Unmeasured,
    clean,
    counted,
    grouped,
    items,
    mapping,
    number,
    read,
    show,
)
from b200kit.report.outcome import is_good, outcome_of
from b200kit.run import connection_fault

TONES = {
    Status.FAIL: "bad", Status.UNMEASURED: "unknown", Status.WAIVED: "waived", Status.PASS: "good",
}  # fmt: skip
"""What blocks first."""
_NOTHING = "nothing recorded"
_PARTS_IN_FULL = 3
_GPU = re.compile(r"GPU ([0-9]{1,4})")
_REPLICA = re.compile(r"vllm(-group)?@[0-9]+\.service")


def verdict_of(host: object) -> Verdict:
    """The verdict of a HostRecord, each text on one line; without findings where there is none."""
    document = read(host, "verdict")
    found = [_finding(mapping(entry)) for entry in items(read(document, "findings"))]
    left_out = {k: show(v) for k, v in mapping(read(document, "not_applicable")).items()}
    order = list(TONES)
    return Verdict(tuple(sorted(found, key=lambda one: order.index(one.status))), left_out)


def _finding(entry: dict[str, object]) -> Finding:
    texts = {key: clean(value) for key, value in entry.items() if isinstance(value, str)}
    untold = f"{texts.get('check') or 'a check'}: no summary in the record"
    lists = {"subjects": [show(name) for name in items(entry.get("subjects"))]}
    waiver = {"waiver": mapping(entry.get("waiver"))}
    nothing = "" if texts.get("status") == "pass" else _NOTHING
    blank = {"summary": untold, "read": nothing, "expected": nothing}
    said = {key: text for key, text in texts.items() if text}
    try:
        return structure(Finding, {"subject": "", **blank, **said, **lists, **waiver})
    except Malformed as error:
        why = f"{texts.get('check') or 'a check'}: its finding could not be read: {error}"
        return Finding(
            why, Status.UNMEASURED, texts.get("subject", ""), check=said.get("check", "")
        )


def advice_of(finding: Finding) -> str:
    """What to do about a finding, or who waived it; empty where it passed."""
    if finding.status is Status.WAIVED:
        by = finding.waiver or {}
        owner, until, reason = (show(by.get(key, "?")) for key in ("owner", "until", "reason"))
        return f"waived by {owner} until {until}: {reason}" if by else "waived, by whom is unknown"
    return "" if finding.status is Status.PASS else advice.of(finding)


@dataclass(frozen=True, slots=True)
class Similar:
    """A finding, and those that say the same of other subjects or have the same reason."""

    finding: Finding
    others: tuple[Finding, ...]

    @property
    def tone(self) -> str:
        """Of its colour."""
        return TONES[self.finding.status]

    @property
    def advice(self) -> str:
        """What to do about it."""
        return advice_of(self.finding)

    @property
    def evidence(self) -> str:
        """What was read against what was expected, with the file that expects it."""
        source = self.finding.source.partition(":")[0]
        by = f" ({source})" if source else ""
        return f"read: {self.finding.read}; expected: {self.finding.expected}{by}"

    @property
    def also(self) -> str:
        """What else is so, or an empty string."""
        mine, others = self.finding, self.others
        if not others:
            return ""
        if any(other.check != mine.check for other in others):
            return f"{len(others)} more for this reason"
        parts = dict.fromkeys(other.part or other.subject for other in others)
        subjects = dict.fromkeys(other.subject for other in others)
        few = mine.status is Status.FAIL and len(parts) <= _PARTS_IN_FULL
        named = parts if len(subjects) == 1 or few else subjects
        names = [name for name in named if name not in (mine.part, mine.subject)]
        if not names:
            return f"{len(others)} more of {mine.subject}"
        numbers = [int(match[1]) for name in names if (match := _GPU.fullmatch(name))]
        rest = [name for name in names if not _GPU.fullmatch(name)]
        gpus = [f"GPU {cpulist.format(numbers)}"] if numbers else []
        return f"the same of {', '.join([*gpus, *rest])}"


def each_once(verdict: Verdict) -> list[Similar]:
    """What did not pass: each fault by itself, what was not read for one reason once."""
    return _similar(verdict, lambda f: _reason(f) if f.status is Status.UNMEASURED else id(f))


def groups_of(verdict: Verdict) -> list[list[Similar]]:
    """What did not pass; findings of one part with one thing to do about them are a group."""
    return list(grouped(_similar(verdict, _reason), _request).values())


def _similar(verdict: Verdict, key: Callable[[Finding], Hashable]) -> list[Similar]:
    shown = [finding for finding in verdict.findings if finding.status is not Status.PASS]
    return [Similar(first, tuple(others)) for first, *others in grouped(shown, key).values()]


def _reason(finding: Finding) -> Hashable:
    common = finding.status is Status.UNMEASURED and finding.read != _NOTHING
    read = cause(finding.read) if common else finding.read
    return (finding.status, read, advice_of(finding) if finding.waiver else "",
            "" if common else finding.check)  # fmt: skip


def _request(similar: Similar) -> Hashable:
    finding = similar.finding
    parts = tuple(other.part for other in similar.others)
    what = finding.part or finding.summary
    return (finding.status, finding.action, similar.advice, what, parts)


def gate_line(host: object) -> str:
    """The verdict in one line: ``fit: 61 pass, 0 fail, 0 unmeasured, 0 waived``."""
    if not mapping(read(host, "verdict")):
        return "unmeasured: no verdict in the record"
    verdict = verdict_of(host)
    counts = (f"{count} {status}" for status, count in verdict.counts.items())
    return f"{verdict.fit}: {', '.join(counts)}"


@dataclass(frozen=True, slots=True)
class First:
    """What is wrong, what to do, who serves: texts, empty where a node is as requested.

    *finding*: where the cause is one.
    """

    cause: str = ""
    action: str = ""
    serving: str = ""
    finding: Finding | None = field(default=None, compare=False)


def first_of(host: object) -> First:
    """The three answers of a HostRecord; a cause that a finding names is that finding."""
    if is_good(host):
        return First()
    error, word = read(host, "error"), outcome_of(host).word
    said = clean(error) if isinstance(error, str) else ""
    worst = next((f for f in verdict_of(host).findings if f.blocks), None)
    if worst and (not said or said.startswith(worst.summary)):
        return First(worst.summary, advice_of(worst), serving_line(host), worst)
    never = word == "not reached"
    untold = "the run ended before its turn" if never else "unmeasured: no cause in the record"
    cause = read(host, "cause")
    known = isinstance(cause, str) or word == "unreachable"
    todo = connection_fault.advice(cause) if known else advice.of_outcome(word)
    return First(said or untold, todo, "untouched" if word == "bare" else serving_line(host))


def serving_line(host: object) -> str:
    """Say whether a node serves, was stopped by this run, or was left as it was."""
    if isinstance(known := read(host, "in_short", "serving"), str):
        return known
    withdrawn = read(host, "withdrawn")
    if mapping(withdrawn) and "units" in mapping(withdrawn):
        return _stopped(items(read(withdrawn, "units")))
    if isinstance(withdrawn, Unmeasured) and "withdrawn" in mapping(host):
        return f"STILL SERVING: it could not be stopped: {withdrawn.reason}"
    repaired = read(host, "reprovision", "state")
    if isinstance(repaired, str) and repaired != "serving":
        return f"out of service: {show(repaired)}"
    return "serves" if outcome_of(host).word == "live" else _observed(host)


def _stopped(units: list[object]) -> str:
    names = [show(unit) for unit in units]
    replicas = [name for name in names if _REPLICA.fullmatch(name)]
    others = [name for name in names if name not in replicas]
    what = [counted(len(replicas), "replica")] if replicas else []
    return f"stopped by this run: {', '.join([*what, *others])}" if names else "nothing served here"


def _observed(host: object) -> str:
    """What the last observation saw. What this run changed after it may have changed that."""
    units = read(host, "state", "units")
    if not mapping(read(host, "state")):
        return "unmeasured: it was not observed; what serves there was not touched"
    if isinstance(units, Unmeasured):
        return "unmeasured: its units were not read; this run stopped nothing"
    asked = [unit for name, unit in mapping(units).items() if _REPLICA.fullmatch(name)]
    states = [read(unit, "active") for unit in asked if unit is not None]
    known = [state for state in states if not isinstance(state, Unmeasured)]
    if not asked or (states and not known):
        return "untouched: whether replicas ran was not read"
    runs = sum(state not in ("inactive", "failed") for state in known)
    seen = f"{counted(runs, 'replica') if runs else 'no replica'} ran when it was observed"
    seen += f"; {len(states) - len(known)} unmeasured" if len(known) < len(states) else ""
    changed = bool(number(read(host, "changes")))
    return f"unmeasured since this run's changes: {seen}" if changed else f"untouched: {seen}"
