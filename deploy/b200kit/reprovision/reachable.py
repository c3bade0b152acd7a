"""Whether a node answers, and the fault of one that does not."""

from __future__ import annotations

from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.reprovision.planned_change import UNREACHABLE
from b200kit.reprovision.state_machine import NotFit
from b200kit.run import connection_fault
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError

_ANSWER_S = 20


def unreachable(node: Node) -> Finding | None:
    """The fault of a node that does not answer, after one more try; None for one that does."""
    try:
        remote = node.connected()
        if node.unreachable or not remote.attempt("true", timeout=_ANSWER_S).ok:
            remote.connect_fresh()
        node.unreachable = None
        return None
    except RemoteError as error:
        node.unreachable = str(error)
    mendable = connection_fault.is_the_nodes(node.unreachable)
    return Finding(
        "the node does not answer SSH",
        Status.FAIL,
        read=node.unreachable,
        expected="an answer",
        action=Action.POWER_CYCLE if mendable else Action.NONE,
        check=UNREACHABLE,
        remedy=connection_fault.advice(connection_fault.code_of(node.unreachable)),
    )


def require_answer(node: Node) -> None:
    """Raises NotFit for a node that does not answer."""
    if fault := unreachable(node):
        raise NotFit(f"{fault.summary}: {fault.read}", (fault,))
