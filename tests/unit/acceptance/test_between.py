"""The network between nodes: measured once a run, and each node has what concerns it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from b200kit.acceptance import run
from b200kit.acceptance.network import run as network
from b200kit.acceptance.network.run import NetworkResult
from b200kit.acceptance.run import Between
from b200kit.node.state.verdict import Finding, Status, Verdict
from b200kit.run.node import Node, StageFailed

FINDINGS = (
    Finding("12 transfers are well", subject="rail 0", check="network.traffic"),
    Finding("3 transfers failed", Status.FAIL, "rail 2", check="network.traffic"),
    Finding("a cable", Status.FAIL, "n02 rail 2", check="network.blame", subjects=("n02",)),
    Finding("firmware", Status.FAIL, "n01 mlx5_3", check="network.facts"),
    Finding("2 have no figure", Status.UNMEASURED, "rail 3", check="network.traffic"),
)


def node(name: str, rails: bool = True) -> Node:
    """A node, with or without declared rails."""
    spec = SimpleNamespace(rails=(1,) if rails else ())
    return cast(Node, SimpleNamespace(name=name, spec=spec, say=lambda *_: None))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The nodes of each measurement that was made."""
    made: list[list[str]] = []

    def measure(nodes: list[Any], say: object) -> NetworkResult:
        made.append([one.name for one in nodes])
        return NetworkResult(Path("network-1"), Verdict(FINDINGS))

    monkeypatch.setattr(network, "measure", measure)
    monkeypatch.setattr(network, "verified", lambda path, allowed: None)
    return made


def test_it_is_measured_once_for_all_nodes_with_rails(measured: list[list[str]]) -> None:
    them = Between()
    nodes = [node("n01"), node("n02"), node("n03", rails=False)]
    for one in nodes:
        assert them.is_wanted == (len(them.nodes) > 1)
        them.join(one)
    for one in nodes[:2]:
        them.measure(one)
    assert measured == [["n01", "n02"]]
    assert them.of("n03") == ()


def test_each_node_has_what_concerns_it(measured: list[list[str]]) -> None:
    them = Between()
    for name in ("n01", "n02", "n03"):
        them.join(node(name))
    them.measure(them.nodes["n01"])
    blocking = {name: [f.summary for f in them.of(name) if f.blocks] for name in them.nodes}
    assert blocking == {
        "n01": ["firmware", "2 have no figure"],
        "n02": ["a cable", "2 have no figure"],
        "n03": ["2 have no figure"],
    }
    unblamed = run.concerning(FINDINGS[:2], "n03", them.nodes)
    assert [f.summary for f in unblamed if f.blocks] == ["3 transfers failed"]


def test_a_network_that_is_not_measured_is_nobody_s_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def measure(nodes: object, say: object) -> NetworkResult:
        tries.append(nodes)
        raise ValueError("the disk is full")

    monkeypatch.setattr(network, "measure", measure)
    them = Between()
    for name in ("n01", "n02"):
        them.join(node(name))
    for one in them.nodes.values():
        with pytest.raises(StageFailed, match="disk is full"):
            them.measure(one)
    assert len(tries) == 1
