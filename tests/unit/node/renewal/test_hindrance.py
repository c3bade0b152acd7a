"""A node that is out, or that somebody works on, is not measured."""

from __future__ import annotations

from dataclasses import replace

from b200kit.node.renewal.hindrance import Standing, hindrance
from b200kit.node.serving.gateway.haproxy import GatewayServer
from b200kit.node.state.serving import Replica
from tests.subtests import in_subtests

UP = (GatewayServer("vllm0", "UP", 0), GatewayServer("vllm1", "UP", 0))
SERVES = Standing(UP)
REPLICAS = [Replica(n, f"http://127.0.0.1:{n}", f"vllm@{n}.service", ()) for n in (0, 1)]


@in_subtests(
    ("standing", "word"),
    [
        (replace(SERVES, quarantine={"why": "swap"}), "out of service"),
        (replace(SERVES, quarantine={"unmeasured": "denied"}), "out of service"),
        (replace(SERVES, drained={"servers": []}), "drained"),
        (replace(SERVES, lock={"owner": "ops"}), "works on"),
        (replace(SERVES, rolling_restart={"replica": 1}), "rolling restart"),
        (replace(SERVES, servers="no socket"), "no socket"),
        (replace(SERVES, servers=(UP[0], GatewayServer("vllm1", "DRAIN", 0))), "vllm1"),
        (replace(SERVES, servers=(UP[0], GatewayServer("vllm1", "DOWN 1/2", 0))), "vllm1"),
        (replace(SERVES, servers=UP[:1]), "vllm1"),
    ],
)
def test_what_keeps_it_from_measuring(standing: Standing, word: str) -> None:
    assert word in hindrance(standing, REPLICAS)


def test_node_that_serves_as_a_whole_may() -> None:
    assert hindrance(SERVES, REPLICAS) == ""
    assert hindrance(SERVES, []) != ""
