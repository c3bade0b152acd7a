"""What a guest cannot do itself: findings whose remedy is on the host say so. Pure.

From the hardware data, `guest.remedies`: by the action's word what is left of it inside (`action`),
in words (`remedy`; {advice} is what would be done on bare metal), and for which checks, by the
beginnings of their ids, where not for all (`checks`).
"""

from __future__ import annotations

from dataclasses import replace

from b200kit.node.state import advice
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding, Status


def inside(expect: Expectation, finding: Finding) -> Finding:
    """The finding as somebody in the guest can act on it; of bare metal it stays as it is."""
    if finding.status not in (Status.FAIL, Status.WAIVED):
        return finding
    entry = expect.at("hardware", "expect", "guest.remedies", "value", finding.action.word)
    words = entry.known(str, "remedy")
    if words is None:
        return finding
    checks = entry.known(list, "checks") or [""]
    if not finding.check.startswith(tuple(map(str, checks))):
        return finding
    remedy = words.replace("{advice}", advice.of(finding))
    return replace(finding, action=Action.parse(entry.reading("action")), remedy=remedy)
