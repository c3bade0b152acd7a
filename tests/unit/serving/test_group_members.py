"""Members of a group, as they are rendered and as their stages treat them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from b200kit.node.client import serving_config as node_serving
from b200kit.node.serving import group_peers
from b200kit.run.node import Node
from b200kit.stages import firewall, gateway, serving, smoke, watchdog
from tests.unit.nodes import settled, spec

GROUP: dict[str, Any] = {
    "name": "a",
    "members": {"n01": "10.1.0.1", "n02": "10.1.0.2", "n03": "10.1.0.3"},
    "head": "n02",
    "interface": "ens1",
    "join": "tensor",
}
DROP_IN = "/etc/systemd/system/vllm@0.service.d/replica.conf"
WATCHING = "/etc/systemd/system/b200-peers.service"


def member(folder: Path, name: str, **changes: Any) -> Node:
    """A member that was observed before it knew its group."""
    node, _ = settled(folder)
    asked = {"group": GROUP | changes.pop("group", {}), "replicas": 1, "tensor_parallel": 8}
    node.spec, node.name = spec(folder, **asked, **changes), name
    return node


def files(node: Node) -> dict[str, str]:
    """Path to text of what serving is on a node."""
    return {file.path: file.content.decode() for file in desired(node)}


def desired(node: Node) -> Any:
    """The files of the serving stage."""
    return serving.desired(node, node.layout()).files


@pytest.fixture
def follower(tmp_path: Path) -> Node:
    """A member that works for n02."""
    return member(tmp_path, "n03")


@pytest.fixture
def head(tmp_path: Path) -> Node:
    """The member that answers requests."""
    return member(tmp_path, "n02")


def test_follower_is_started_when_it_is_joined_and_warms_nobody(follower: Node) -> None:
    lines = files(follower)[DROP_IN].splitlines()
    cleared = lines.index("ExecStartPost=")
    [hook] = [line for line in lines[cleared + 1 :] if line.startswith("ExecStartPost=")]
    limit = follower.spec.warm_deadline_s
    assert f" peers --config /etc/b200kit/serving.json --wait {limit} --main-pid $MAINPID" in hook
    config = yaml.safe_load(files(follower)["/etc/vllm/replica-0.yaml"])
    assert (config["headless"], config["node-rank"], config["nnodes"]) == (True, 2, 3)


def test_head_is_warmed_as_any_replica_is(head: Node) -> None:
    assert "ExecStartPost" not in files(head)[DROP_IN]
    assert "headless" not in yaml.safe_load(files(head)["/etc/vllm/replica-0.yaml"])


@pytest.mark.parametrize("name", ["n01", "n02", "n03"])
def test_member_talks_within_its_group_alone_and_watches_it(tmp_path: Path, name: str) -> None:
    node = member(tmp_path, name)
    lines = files(node)[DROP_IN].splitlines()
    allowed = {line.partition("=")[2] for line in lines if line.startswith("IPAddressAllow=")}
    # Its own address too: its workers meet on the group's interface.
    assert allowed == set(GROUP["members"].values())
    assert "Wants=b200-peers.service" in lines
    assert "BindsTo=vllm@0.service" in files(node)[WATCHING]


def test_node_by_itself_has_nothing_of_it(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    given = files(node)
    assert WATCHING not in given
    assert "IPAddressAllow" not in given[DROP_IN]
    assert json.loads(given[serving.SERVING])["group"] is None


def test_head_watches_all_and_a_follower_its_head(head: Node, tmp_path: Path) -> None:
    message = json.loads(files(head)[serving.SERVING])["group"]
    assert set(message["peers"]) == {"10.1.0.1", "10.1.0.3"}
    other = json.loads(files(member(tmp_path, "n01"))[serving.SERVING])["group"]
    assert (other["peers"], other["headless"]) == (["10.1.0.2"], True)


def test_node_s_program_knows_no_replica_to_ask_on_a_follower(
    follower: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.loads(files(follower)[serving.SERVING]) | {"api_key_file": None}
    config = tmp_path / "serving.json"
    config.write_text(json.dumps(document))
    assert node_serving.load(config).replicas == ()
    monkeypatch.setattr("pwd.getpwnam", lambda _: SimpleNamespace(pw_uid=990))
    assert group_peers.load(config).peers == ("10.1.0.2",)


def test_follower_has_no_endpoint_no_watchdog_and_no_smoke_test(follower: Node) -> None:
    layout = follower.layout()
    assert gateway.desired(follower, layout).files == ()
    assert watchdog.desired(follower, layout).units == ()
    assert watchdog.expected(follower).keys() == {"serving", "room"}
    assert smoke.STAGE.plan(follower) == []


def test_with_data_every_member_has_its_own_endpoint(tmp_path: Path) -> None:
    moe = {"data_parallel": 8, "tensor_parallel": 1}
    node, _ = settled(tmp_path)
    asked = {"group": GROUP | {"join": "data"}, "replicas": 1, **moe}
    node.spec, node.name = spec(tmp_path, **asked), "n03"
    assert gateway.desired(node, node.layout()).files != ()
    assert len(json.loads(files(node)[serving.SERVING])["replicas"]) == 1


def test_firewall_opens_what_members_need_of_each_other(tmp_path: Path) -> None:
    node = member(tmp_path, "n03", firewall={"allow": []})
    opened = {(e["source"], e["port"]) for e in firewall.expected(node)["firewall"]}
    assert opened == {
        (peer, port) for peer in ("10.1.0.1", "10.1.0.2") for port in (29501, "32768-60999")
    }
