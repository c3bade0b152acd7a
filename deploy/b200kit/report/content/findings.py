"""The verdict's findings in the order and words a person needs: what blocks first."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.report.document import Unmeasured, items, mapping, read, show
from b200kit.report.outcome import LADDER

_ORDER = {"fail": 0, "unmeasured": 1, "waived": 2, "pass": 3}
_TONES = {"fail": "bad", "unmeasured": "unknown", "waived": "waived", "pass": "good"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding as text: status and tone, what was seen and expected, what to do about it."""

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

    @property
    def blocks(self) -> bool:
        """Say whether the finding keeps the node from going live: all but pass and waived do."""
        return self.status not in ("pass", "waived")

    @property
    def advice(self) -> str:
        """Return the action in words, with the part it is about, or an empty string."""
        if self.status == "waived":
            return self.waiver
        if self.status == "unmeasured":
            return "nothing is assumed: mend the reading, or waive it by name until a date"
        if not self.action or self.action == "none":
            return ""
        words = LADDER.get(self.action, self.action)
        return f"{words}: {self.part}" if self.part else words

    @property
    def evidence(self) -> str:
        """Return what was read against what was expected, with the expectation's source."""
        source = f" ({self.source})" if self.source else ""
        return f"read: {self.read}; expected: {self.expected}{source}"


def findings_of(verdict: object) -> list[Finding]:
    """Return the findings of a Verdict, failures first, passes last, otherwise in their order."""
    found = [_finding(entry) for entry in items(read(verdict, "findings"))]
    return sorted(found, key=lambda finding: _ORDER.get(finding.status, 1))


def _finding(entry: object) -> Finding:
    def said(key: str) -> str:
        value = read(entry, key)
        blank = value is None or (isinstance(value, Unmeasured) and key not in mapping(entry))
        return "" if blank else show(value)

    status = said("status") or "unmeasured"
    summary = said("summary") or f"{said('check') or 'a check'}: no summary in the record"
    return Finding(
        check=said("check"),
        status=status,
        tone=_TONES.get(status, "unknown"),
        subject=said("subject"),
        summary=summary,
        read=said("read") or "nothing recorded",
        expected=said("expected") or "nothing recorded",
        source=said("source"),
        action=said("action"),
        part=said("part"),
        waiver=_waiver(read(entry, "waiver")),
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
