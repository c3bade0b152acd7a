"""A recorded node and what it is judged by: what its file has, or the data of its hardware."""

from __future__ import annotations

from typing import Any

from b200kit.catalog.recognised import Unrecognised
from b200kit.node.checks.judge import judge_vetted
from b200kit.node.lib import timestamp
from b200kit.node.state.plausible import plausible
from b200kit.node.state.verdict import Verdict
from b200kit.records import examples, observed_file
from b200kit.records.expected import by_its_gpus
from b200kit.records.observed_file import ObservedNode


def file(path: str, hardware_name: str | None, expect: str | None) -> ObservedNode:
    """The node in a file, its observation vetted. Raises OSError and ValueError."""
    found = observed_file.read(path)
    return _asked(path, found, hardware_name, expect)


def example(name: str, hardware_name: str | None, expect: str | None) -> ObservedNode:
    """An example of those that come with b200kit, likewise; raises NoExample, too."""
    found = examples.load(name)
    return _asked(found.name, ObservedNode(found.name, found.state), hardware_name, expect)


def judged(node: ObservedNode) -> Verdict:
    """The verdict on it."""
    return judge_vetted(node.expectation, node.state)


def _asked(
    where: str, node: ObservedNode, hardware_name: str | None, expect: str | None
) -> ObservedNode:
    own = node.expectation or _by_its_gpus(where, node.state, hardware_name)
    expected = observed_file.document_of(expect) if expect else own
    if isinstance(expected, dict):
        expected = {"today": timestamp.today(), **expected}
    return ObservedNode(node.name, plausible(node.state), expected)


def _by_its_gpus(where: str, state: Any, name: str | None) -> dict[str, Any]:
    """An expectation from the data of the hardware named, or else of what the node's GPUs are."""
    try:
        return by_its_gpus(state, name)
    except Unrecognised as error:
        raise Unrecognised(f"{where}: {error}; name it with --hardware") from None
