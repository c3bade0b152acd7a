"""Traffic adapters: the site's own command, and commands to gateways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from b200kit.inventory.keys.reprovision import TRAFFIC as NAMES
from b200kit.reprovision import traffic
from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic import command, haproxy
from b200kit.run.node import Node
from b200kit.run.remote import Remote, RemoteError
from tests.messages import assert_message, raises_message
from tests.unit.nodes import spec
from tests.unit.reprovision.traffic.programs import Programs


def test_every_name_of_the_inventory_has_its_adapter(tmp_path: Path) -> None:
    node = Node("n7", spec(tmp_path, traffic=list(NAMES), traffic_command=["x"]))
    assert [adapter.name for adapter in traffic.adapters(node)] == list(NAMES)


def test_command_of_the_site_gets_its_words(programs: Programs, node: Node) -> None:
    programs.answer("site-lb", ("--cell a drained", "looking\n3", 0), ("", "", 0))
    command.TRAFFIC.take_out(node, "no\0\nNVLink")
    assert command.TRAFFIC.drained(node) == 3
    command.TRAFFIC.bring_back(node, 5)
    assert programs.ran() == [
        "site-lb|--cell|a|take-out|n7|no\\x00 NVLink",
        "site-lb|--cell|a|drained|n7",
        "site-lb|--cell|a|bring-back|n7|5",
    ]


@pytest.mark.parametrize(("said", "code"), [("", 0), ("-1", 0), ("three", 0), ("3", 1)])
def test_command_that_tells_no_number_tells_nothing(
    programs: Programs, node: Node, said: str, code: int
) -> None:
    programs.answer("site-lb", ("", said, code))
    assert command.TRAFFIC.drained(node) is None


class Gateways:
    """Hosts of an inventory, what the node program was asked on each, and what it answers."""

    def __init__(self, fleets: dict[str, Any]) -> None:
        self.log: list[str] = []
        self.away: set[str] = set()
        self.answers: dict[str, str | RemoteError] = {}
        hosts = [SimpleNamespace(name=n, data={"fleet": fleet}) for n, fleet in fleets.items()]
        for host in hosts:
            host.inventory = hosts
        self.hosts = {host.name: host for host in hosts}

    def program(self, remote: Remote, words: str) -> str:
        """An answer by the first two words."""
        self.log.append(f"{remote.host.name}: {words}")
        answer = self.answers.get(" ".join(words.split()[:2]), "ok")
        if isinstance(answer, RemoteError):
            raise answer
        return answer

    def reach(self, remote: Remote) -> None:
        """Connect."""
        if remote.host.name in self.away:
            raise RemoteError("not reached: timed out")


Make = Callable[..., tuple[Node, Gateways]]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Node n7 in an inventory with these fleets."""

    def make(**fleets: Any) -> tuple[Node, Gateways]:
        gateways = Gateways({"n7": {"port": 9000}, **fleets})
        monkeypatch.setattr(Remote, "program", lambda r, w, timeout: gateways.program(r, w))
        monkeypatch.setattr(Remote, "ensure_connected", lambda r: gateways.reach(r))
        node = Node("n7", spec(tmp_path))
        node.remote = Remote(cast(Any, gateways.hosts["n7"]), 5)
        return node, gateways

    return make


def test_others_are_told_before_the_nodes_own_gateway_and_after_it_on_the_way_back(
    fleet: Make,
) -> None:
    named = {"port": 9000, "nodes": [{"name": "n7"}, {"name": "n9"}]}
    node, gateways = fleet(n8={"port": 9000}, n9=named, n10={"nodes": [{"name": "n8"}]}, n11=None)
    assert "n8 done; n9 done" in haproxy.TRAFFIC.take_out(node, "why")
    haproxy.TRAFFIC.bring_back(node, 5)
    assert gateways.log == [
        "n8: rotation drain n7",
        "n9: rotation drain n7",
        "n7: drain begin",
        "n7: share set 5",
        "n7: drain end",
        "n8: rotation share n7 5",
        "n9: rotation share n7 5",
    ]


def test_gateway_that_is_away_is_said_and_stops_nobody(fleet: Make) -> None:
    node, gateways = fleet(n8={"port": 9000}, n9={"port": 9000})
    gateways.away = {"n8"}
    said = haproxy.TRAFFIC.take_out(node, "why")
    assert_message(said)


def test_gateway_that_refuses_ends_it(fleet: Make) -> None:
    node, gateways = fleet(n8={"port": 9000})
    gateways.answers["rotation drain"] = RemoteError("HAProxy: nodes/n7 to drain: No such server.")
    with raises_message(ActionFailed):
        haproxy.TRAFFIC.take_out(node, "why")
    assert gateways.log == ["n8: rotation drain n7"]


def test_node_that_does_not_answer_is_taken_out_by_the_others(fleet: Make) -> None:
    node, gateways = fleet(n8={"port": 9000})
    node.unreachable = "timed out"
    assert_message(haproxy.TRAFFIC.take_out(node, "why"))
    assert gateways.log == ["n8: rotation drain n7"]


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ('{"open": 0}', 0),
        ('{"open": 12}', 12),
        ('{"open": null, "why": "no socket"}', None),
        ("", None),
        ("[12]", None),
        ('{"open": true}', None),
        (RemoteError("no answer in 60 s"), None),
    ],
)
def test_streams_are_told_by_the_nodes_own_gateway_or_not_at_all(
    fleet: Make, said: Any, count: int | None
) -> None:
    node, gateways = fleet()
    gateways.answers["drain count"] = said
    assert haproxy.TRAFFIC.drained(node) == count
