"""A verdict's findings as all views show them: what blocks first, one action requested once."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from b200kit.node.lib import cpulist
from b200kit.node.state import advice
from b200kit.node.state.verdict import Action, cause
from b200kit.report.document import Unmeasured, items, mapping, read, show

_T = TypeVar("_T")
_PARTS_IN_FULL = 3
_GPU = re.compile(r"GPU ([0-9]{1,4})")
_ORDER = {"fail": 0, "unmeasured": 1, "waived": 2, "pass": 3}
_NOTHING = "nothing recorded"
_TONES = {"fail": "bad", "unmeasured": "unknown", "waived": "waived", "pass": "good"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding as text: status and tone, what was read and expected, what to do about it."""

    check: str
    status: str
    tone: str
    subject: str
    summary: str
    read: str
    expected: str
    source: str
    action: str
    part: str
    waiver: str
    subjects: tuple[str, ...]
    remedy: str

    @property
    def blocks(self) -> bool:
        """Say whether the finding keeps the node from going live: all but pass and waived do."""
        return self.status not in ("pass", "waived")

    @property
    def advice(self) -> str:
        """Return the action in words, with the part it is about, or an empty string."""
        if self.status == "waived":
            return self.waiver
        if self.remedy:
            return self.remedy
        if self.status == "unmeasured":
            return advice.UNMEASURED
        if self.status == "pass" or not self.action:
            return ""
        step = Action.parse(self.action)
        shared = bool(self.subjects) and self.subject == "node"
        return advice.advice(step, self.subject, self.part, shared=shared)

    @property
    def evidence(self) -> str:
        """Return what was read against what was expected, with the file that expects it."""
        source = f" ({self.source.partition(':')[0]})" if self.source else ""
        return f"read: {self.read}; expected: {self.expected}{source}"


@dataclass(frozen=True, slots=True)
class Similar:
    """A finding, and those that say the same of other subjects or have the same reason."""

    finding: Finding
    others: tuple[Finding, ...]

    @property
    def also(self) -> str:
        """Return what else is so, or an empty string."""
        if not self.others:
            return ""
        if all(other.check == self.finding.check for other in self.others):
            parts = dict.fromkeys(other.part or other.subject for other in self.others)
            subjects = dict.fromkeys(other.subject for other in self.others)
            few = self.finding.status == "fail" and len(parts) <= _PARTS_IN_FULL
            named = parts if len(subjects) == 1 or few else subjects
            named.pop(self.finding.part, None)
            named.pop(self.finding.subject, None)
            if not named:
                return f"{len(self.others)} more of {self.finding.subject}"
            return f"the same of {numbered(named)}"
        return f"{len(self.others)} more for this reason"


def numbered(names: Iterable[str]) -> str:
    """Return names with commas between them, GPUs by ranges of their numbers: ``GPU 1-3,5``."""
    found = list(names)
    numbers = [int(match[1]) for name in found if (match := _GPU.fullmatch(name))]
    others = [name for name in found if not _GPU.fullmatch(name)]
    return ", ".join([*([f"GPU {cpulist.format(numbers)}"] if numbers else []), *others])


def each_once(verdict: object) -> list[Similar]:
    """Return what did not pass: each fault by itself, what was not read for one reason once."""
    shown = [finding for finding in findings_of(verdict) if finding.status != "pass"]
    unread = _together(shown, lambda f: _reason(f) if f.status == "unmeasured" else id(f))
    return [Similar(first, tuple(others)) for first, *others in unread]


def groups_of(verdict: object) -> list[list[Similar]]:
    """Return what did not pass; findings with one action and remedy for one part are a group."""
    shown = [finding for finding in findings_of(verdict) if finding.status != "pass"]
    similar = [Similar(first, tuple(others)) for first, *others in _together(shown, _reason)]
    return _together(similar, _request)


def _together(things: Iterable[_T], key: Callable[[_T], Hashable]) -> list[list[_T]]:
    groups: dict[Hashable, list[_T]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return list(groups.values())


def _reason(finding: Finding) -> Hashable:
    common = finding.status == "unmeasured" and finding.read != _NOTHING
    read = cause(finding.read) if common else finding.read
    return (finding.status, read, finding.waiver, "" if common else finding.check)


def _request(similar: Similar) -> Hashable:
    finding = similar.finding
    subjects = tuple(other.part for other in similar.others)
    what = finding.part or finding.summary
    return (finding.status, finding.action, finding.remedy, what, finding.waiver, subjects)


def findings_of(verdict: object) -> list[Finding]:
    """Return the findings of a Verdict, failures first, passes last, otherwise in their order."""
    found = [_finding(entry) for entry in items(read(verdict, "findings"))]
    return sorted(found, key=lambda finding: _ORDER.get(finding.status, 1))


def _finding(entry: object) -> Finding:
    def text(key: str) -> str:
        value = read(entry, key)
        blank = value is None or (isinstance(value, Unmeasured) and key not in mapping(entry))
        return "" if blank else show(value)

    status = text("status") or "unmeasured"
    summary = text("summary") or f"{text('check') or 'a check'}: no summary in the record"
    return Finding(
        check=text("check"),
        status=status,
        tone=_TONES.get(status, "unknown"),
        subject=text("subject"),
        summary=summary,
        read=text("read") or _NOTHING,
        expected=text("expected") or _NOTHING,
        source=text("source"),
        action=text("action"),
        part=text("part"),
        waiver=_waiver(read(entry, "waiver")),
        subjects=tuple(map(show, items(read(entry, "subjects")))),
        remedy=text("remedy"),
    )


def _waiver(value: object) -> str:
    if not isinstance(value, dict):
        return "waived, by whom is not in the record"
    owner, until = show(read(value, "owner")), show(read(value, "until"))
    return f"waived by {owner} until {until}: {show(read(value, 'reason'))}"


def gate_line(verdict: object) -> str:
    """Return the verdict in one line: ``fit: 61 pass, 0 fail, 0 unmeasured, 0 waived``."""
    fit = read(verdict, "fit")
    if verdict is None or isinstance(fit, Unmeasured):
        return "unmeasured: no verdict in the record"
    found = findings_of(verdict)
    counted = {status: sum(f.status == status for f in found) for status in _TONES}
    given = mapping(read(verdict, "counts"))
    parts = [f"{show(given.get(s, counted[s]))} {s}" for s in ("pass", "fail", "unmeasured")]
    return f"{show(fit)}: {', '.join(parts)}, {show(given.get('waived', counted['waived']))} waived"
