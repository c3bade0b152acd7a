"""The model on the disk is the one that was proven, and is there where it is to serve."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

WHY = "manifest of the model_revision of the inventory"


@check("weights.proven")
def weights_proven(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The model's files are those that were proven by hash, and no other lies among them.

    At the gate a model may still be on its way; on a node that serves it must be there.
    """
    if expect.requested(dict, "weights") is None:
        yield passed("no model is asked for")
        return
    model = f"{expect.text('weights', 'model')} {expect.text('weights', 'revision')[:12]}"
    if state.flag("weights", "model", "complete"):
        yield from files(state, model)
    else:
        yield absent(model, expect.requested(bool, "weights", "serving"))


def absent(model: str, serving: bool | None) -> Finding:
    """What a model that is not there means."""
    expected = rule("a model with its stamp", WHY)
    if not serving:
        return passed(f"{model} is not there yet; nothing serves it before it is", expected)
    summary = f"{model} is not there: b200 deploy fetches it"
    return failed(summary, "no stamp", expected, Action.NONE)


def files(state: StateView, model: str) -> Iterator[Finding]:
    """A finding for each file that is not as it was proven."""
    wrong = state.get(dict, "weights", "model", "wrong")
    proof = state.reading("weights", "model", "proof")
    for path, why in wrong.items():
        summary = f"{path} of {model}: {why}; b200 deploy fetches it again"
        yield failed(summary, str(why), rule("as proven", WHY), Action.NONE, part=str(path))
    if not wrong:
        how = "by hash now" if proof == "hash" else "by sizes and times since its proof by hash"
        yield passed(f"{model} is as proven, {how}", rule("as proven", WHY))
