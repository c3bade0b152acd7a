"""Who sends work to a node: the toolkit's own gateways, and commands of the site's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from b200kit.reprovision import site_command, traffic
from b200kit.reprovision.actions import ActionFailed, ActionRefused
from b200kit.reprovision.traffic import haproxy
from b200kit.run.node import Node
from b200kit.run.remote import Remote, RemoteError
from tests.messages import assert_message, raises_message
from tests.unit.nodes import spec
from tests.unit.programs import Programs


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Found before the machine's own."""
    return Programs.on_path(tmp_path / "bin", monkeypatch)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node that three send work to."""
    senders = ["haproxy", ["site-lb", "--cell", "a"], ["/opt/site/queue"]]
    return Node("n7", spec(tmp_path, traffic=senders))


def test_senders_are_those_of_the_inventory_in_its_order(node: Node) -> None:
    assert [each.name for each in traffic.adapters(node)] == ["haproxy", "site-lb", "queue"]


def test_command_of_the_site_gets_its_words(programs: Programs, node: Node) -> None:
    cases = [("--cell a status", "looking\n3", 0), ("--cell a cut", "cut\n 3 sessions ", 0)]
    programs.keeps = "$B200_WHY"
    programs.answer("site-lb", *cases, ("", "", 0))
    _, site, _ = traffic.adapters(node)
    said = [site.drain(node, "no\0\nNVLink"), site.undrain(node, 5), site.cut(node)]
    assert said == ["site-lb: drain done", "site-lb: undrain done", "site-lb: 3 sessions"]
    assert site.status(node) == 3
    assert programs.ran() == [
        "site-lb|--cell|a|drain|n7|no\\x00 NVLink",
        "site-lb|--cell|a|undrain|n7|5",
        "site-lb|--cell|a|cut|n7",
        "site-lb|--cell|a|status|n7",
    ]


@pytest.mark.parametrize(("said", "code"), [("", 0), ("-1", 0), ("three", 0), ("3", 1)])
def test_command_that_tells_no_number_tells_nothing(
    programs: Programs, node: Node, said: str, code: int
) -> None:
    programs.answer("site-lb", ("", said, code))
    assert traffic.adapters(node)[1].status(node) is None


@pytest.mark.parametrize(
    ("code", "raised"), [(1, ActionFailed), (3, ActionFailed), (2, ActionRefused)]
)
def test_failure_and_refusal_are_told_apart_in_one_line(
    programs: Programs, node: Node, code: int, raised: type[ActionFailed]
) -> None:
    programs.answer("site-lb", ("", "looking\nno such cell", code))
    with pytest.raises(ActionFailed) as failed:
        traffic.adapters(node)[1].drain(node, "why")
    assert failed.type is raised
    assert_message(str(failed.value))


def test_refusal_to_count_ends_the_wait(programs: Programs, node: Node) -> None:
    programs.answer("site-lb", ("", "somebody brought it back", 2))
    with raises_message(ActionRefused):
        traffic.adapters(node)[1].status(node)


def test_command_that_is_not_there_waits_for_a_person(programs: Programs, node: Node) -> None:
    with raises_message(ActionRefused):
        traffic.adapters(node)[1].status(node)


def test_command_that_does_not_end_is_ended_with_all_that_it_started(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, now = programs.folder / "child", [0.0]
    script = f"sleep 600 & echo $! > {child}; echo started >&2; wait"
    monkeypatch.setattr(site_command, "_LOOK_S", 0.01)
    monkeypatch.setattr(site_command, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with raises_message(ActionFailed):
        site_command.run(
            ("sh", "-c", script), "status", within_s=60, say=lambda line: now.__setitem__(0, 61)
        )
    state = Path(f"/proc/{child.read_text().strip()}/stat")
    # Where nobody waits for it, it stays a zombie.
    while state.exists() and state.read_text().split()[2] != "Z":
        time.sleep(0.01)


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
    gateways.answers["share set"] = ""
    assert "n8 done; n9 done" in haproxy.TRAFFIC.drain(node, "why")
    assert "" not in haproxy.TRAFFIC.undrain(node, 5).split("; ")
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
    said = haproxy.TRAFFIC.drain(node, "why")
    assert_message(said)


def test_gateway_that_refuses_ends_it(fleet: Make) -> None:
    node, gateways = fleet(n8={"port": 9000})
    gateways.answers["rotation drain"] = RemoteError("HAProxy: nodes/n7 to drain: No such server.")
    with raises_message(ActionFailed):
        haproxy.TRAFFIC.drain(node, "why")
    assert gateways.log == ["n8: rotation drain n7"]


def test_node_that_does_not_answer_is_taken_out_by_the_others(fleet: Make) -> None:
    node, gateways = fleet(n8={"port": 9000})
    node.unreachable = "timed out"
    assert_message(haproxy.TRAFFIC.drain(node, "why"))
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
    assert haproxy.TRAFFIC.status(node) == count
