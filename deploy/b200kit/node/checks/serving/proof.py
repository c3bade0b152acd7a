"""What serves is proven now: the node's own proof is valid and has not run out.

Judged where the expectation asks for it, which check.py does and the gate does not: at the gate
nothing serves that could be proven.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.lib import documents
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.proof import EXPIRED, EXPIRING, NodeProof
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread

_OBSERVED_S = 60.0
"""How long an observation may take: a health check of meanwhile issues the next proof."""
NOT_ASKED = "no proof is asked for"
_PROVEN = rule("a valid proof", "what was proven once and has run out proves nothing now")


@check("proof.valid")
def valid(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Whether what the node proved of itself holds at the moment of the observation."""
    if expect.requested(dict, "proof") is None:
        yield passed(NOT_ASKED)
        return
    units = expect.get(list, "proof", "replicas")
    states = [state.known(str, "units", str(unit), "active") for unit in units]
    if not any(one in (None, "active") for one in states):
        yield passed("no replica runs, so there is nothing to prove", _PROVEN)
        return
    yield from _proven(state)


def _proven(state: StateView) -> Iterator[Finding]:
    boot_id, uptime = state.text("host", "boot_id"), state.get(float, "host", "uptime_s")
    if state.is_null("notes", "proof"):
        raise Unread("the node's proof", "the node has issued none")
    try:
        issued = documents.structure(NodeProof, state.raw("notes", "proof"))
    except documents.Malformed as error:
        raise Unread("the node's proof", str(error)) from None
    if issued.boot_id == boot_id and issued.boot_s > uptime + _OBSERVED_S:
        raise Unread("the node's proof", "it was issued later than now")
    worth = issued.within(boot_id, uptime)
    if worth.standing == EXPIRED:
        summary = f"what serves is not proven: {worth.why}"
        yield failed(summary, worth.why, _PROVEN, Action.MONITOR, remedy=_REMEDY)
    elif worth.standing == EXPIRING:
        yield noted(f"the proof is about to run out: {worth.why}", None, worth.why, _PROVEN)
    else:
        gpus, left_s = issued.serving.gpus, round(worth.left_s)
        yield passed(f"{gpus} GPUs serve under a valid proof, {left_s} s of it left", _PROVEN)


_REMEDY = (
    "journalctl -u b200-agent on the node says since when; run b200 deploy where a test is too old"
)
