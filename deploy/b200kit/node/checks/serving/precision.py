"""A model in fewer bits than it was published in serves only where its answers were compared.

The expectation carries what was recorded of such a comparison (b200kit/quality/), and the limits.
A record that is missing, damaged or too small to tell is unmeasured; a site that knows better
waives the check by name.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation, Expected, Unexpected
from b200kit.node.state.verdict import Action, Finding, Status, waiver_line
from b200kit.node.state.view import StateView, View

UNITS = {"kl_nats": "nats of KL divergence", "flips": "of tokens are others"}
REMEDY = (
    "compare it with the original (b200 quality compare), serve it as it was published, or waive "
    f"it in the inventory: {waiver_line('precision.validated')}"
)
_SOURCE = "b200kit/catalog/quality.yaml"


@check("precision.validated")
def validated(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """What is served in fewer bits was compared with the original, and lies within the limits."""
    del state
    if expect.requested(dict, "precision") is None:
        yield passed("no model is asked for")
        return
    asked = expect.at("precision")
    lowered, model = asked.get(list, "lowered"), asked.text("model")
    expected = rule("compared with the original", _SOURCE)
    if not lowered:
        yield passed(f"{model} is served as it was published", expected)
        return
    yield _judged(f"{', '.join(map(str, lowered))} of {model}", asked, expected)


def _judged(what: str, asked: View, expected: Expected) -> Finding:
    doubt = asked.known(str, "doubt")
    if doubt is not None:
        return _unmeasured(f"{what}: not validated here: {doubt}", doubt, expected)
    figures = {name: _figure(asked, name) for name in UNITS}
    words = ", ".join(_words(name, *figure) for name, figure in figures.items())
    for name, (low, _, _, limit) in figures.items():
        if low > limit:
            return failed(
                f"{what}: answers lie too far from the original's: {_words(name, *figures[name])}",
                words, expected, Action.NONE, remedy=REMEDY,
            )  # fmt: skip
    if any(high > limit for _, _, high, limit in figures.values()):
        why = "too few prompts to tell"
        return _unmeasured(f"{what}: not validated here: {why}: {words}", words, expected)
    return passed(f"{what}: compared with the original: {words}", expected)


def _unmeasured(summary: str, read: str, expected: Expected) -> Finding:
    return Finding(
        summary=summary, status=Status.UNMEASURED, read=read, expected=expected.text,
        source=expected.source, remedy=REMEDY,
    )  # fmt: skip


def _figure(asked: View, name: str) -> tuple[float, float, float, float]:
    """Least, found and most of a figure, and its limit. Raises Unexpected for what is none."""
    ends = asked.get(list, "compared", name)
    limit = asked.get(float, "limits", name)
    numbers = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool)]
    if len(numbers) != 3 or not 0 <= numbers[0] <= numbers[1] <= numbers[2]:
        raise Unexpected(f"precision: {name}", "it must be least, found and most")
    return numbers[0], numbers[1], numbers[2], limit


def _words(name: str, low: float, found: float, high: float, limit: float) -> str:
    if name == "flips":
        return f"{found:.1%} ({low:.1%} to {high:.1%}, limit {limit:.1%}) {UNITS[name]}"
    return f"{found:.3g} ({low:.3g} to {high:.3g}, limit {limit:g}) {UNITS[name]}"
