"""Nobody took the node out of service: what is quarantined does not serve, whatever else is well.

Judged where the expectation asks for it, at the boot gate as well as by the controller.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.state import quarantine
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.quarantine import Quarantine
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

_IN_SERVICE = rule("not quarantined", "who took it out brings it back, or a person releases it")


@check("quarantine.mark")
def mark(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The node is in service, or somebody who repairs it may try it."""
    if expect.quarantine() == "off":
        yield passed("whether the node is quarantined is not judged")
    elif state.is_null("notes", "quarantine"):
        yield passed("the node is not quarantined", _IN_SERVICE)
    else:
        since_boot = state.reading("host", "boot_id"), state.reading("host", "uptime_s")
        yield _judged(quarantine.mark_of(state.get(dict, "notes", "quarantine")), *since_boot)


def _judged(mark: Quarantine, boot_id: object, uptime_s: object) -> Finding:
    if trial := mark.open_trial(boot_id, uptime_s):
        return noted(f"{mark}; on trial by {trial.who}", None, mark.reason, _IN_SERVICE)
    summary = f"{mark}; b200 repair repairs it, or: {quarantine.RELEASE}"
    return failed(summary, mark.reason, _IN_SERVICE, Action.MONITOR)
