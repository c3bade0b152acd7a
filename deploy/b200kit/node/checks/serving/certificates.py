"""The certificates that a node shows and believes: those of one issue end everywhere at once.

Judged where the expectation asks for it, which check.py and the looks at a serving node do.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.lib import timestamp
from b200kit.node.lib.certificates import SOON, CertificateValidity
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

_HOLDS = rule(f"valid for {SOON.days} days", "all nodes of one issue stop answering in one second")
_REMEDY = "renew it where the inventory names it, and run b200 deploy"


@check("serving.certificates")
def certificates(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The certificates of the gateway and the fleet hold, and not only for days."""
    if not expect.requested(dict, "certificates"):
        yield passed("no certificates are asked for")
        return
    paths = expect.names("certificates")
    found = [one for path in paths for one in within(_judged(state, path), part=path)]
    yield from found or [passed(f"the certificates hold: {', '.join(paths)}", _HOLDS)]


def _judged(state: StateView, path: str) -> Iterator[Finding]:
    """A finding for a file that is gone, does not hold now, or not for long."""
    now, dates = timestamp.parse(state.text("taken_at")), state.at("certificates", path)
    if dates.is_null():
        text = f"{path} is not there"
        yield failed(text, "no file", _HOLDS, Action.NONE, part=path, remedy="run b200 deploy")
        return
    begins, ends = (timestamp.parse(dates.text(name)) for name in ("begins", "ends"))
    held = CertificateValidity(begins, ends)
    read = f"{timestamp.text(begins)} to {timestamp.text(ends)}"
    if why := held.fault(now):
        yield failed(f"{path} {why}", read, _HOLDS, Action.NONE, part=path, remedy=_REMEDY)
    elif soon := held.warning(now):
        yield noted(f"{path} {soon}: {_REMEDY}", None, read, _HOLDS, part=path)
