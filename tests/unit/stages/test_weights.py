"""The model begins to come before the driver, is awaited before serving, then costs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.firewall import opened
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.state import drift
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError
from b200kit.stages import firewall, pipeline, weights
from tests.fake.machine import Machine
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit.nodes import bare, connected, look, make, planned, planned_by_stage, settled
from tests.unit.specs import CATALOGUE, REVISION, data

FETCH = f"/etc/systemd/system/{weights.UNIT}"
SHARING = f"/etc/systemd/system/{weights.SERVER}"
SERVER = {"bind": "0.0.0.0", "from": ["10.0.0.0/24", "10.0.1.7"]}


def described(**progress: Any) -> tuple[bool, str]:
    """What `weights` prints on a node where the unit's state is *progress*."""
    running = progress.pop("running", True)
    return True, json.dumps({"complete": False, "running": running, "progress": progress})


def test_bare_node_begins_to_fetch_before_the_driver_and_waits_before_serving(
    tmp_path: Path,
) -> None:
    node, _ = bare(tmp_path)
    names = [stage.name for stage in pipeline.stages()]
    assert names.index("weights") < names.index("driver") < names.index("model")
    assert names.index("model") < names.index("serving")
    assert_message(*planned(node, "weights"))
    make(node, "weights")
    assert planned(node, "weights") == []
    assert_message(*planned(node, "model"))
    make(node, "model")
    assert planned(node, "model") == []


def test_token_is_in_no_argument_and_no_unit(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    make(node, "weights")
    unit = machine.text(FETCH)
    assert "LoadCredential=hf_token:/etc/b200kit/secrets/hf_token" in unit
    assert "--token-file ${CREDENTIALS_DIRECTORY}/hf_token" in unit
    assert "canary-hf-token" not in unit + "\n".join(machine.log)


def test_without_a_token_none_is_spoken_of(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    del node.secrets["hf_token"]
    make(node, "weights")
    assert "hf_token" not in machine.text(FETCH)


def test_peers_come_before_the_store(tmp_path: Path) -> None:
    peers = ["http://10.0.0.1:8090", "http://10.0.0.2:8090/"]
    node, machine = bare(tmp_path, weights={"peers": peers})
    make(node, "weights")
    name = f"tiny-llama/{REVISION}"
    assert (
        f"--peer http://10.0.0.1:8090/{name} --peer http://10.0.0.2:8090/{name} "
        f"--url https://models.example.internal/{name}"
    ) in machine.text(FETCH)


def test_model_that_is_there_costs_nothing(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    assert planned_by_stage(node) == {}
    assert machine.log == []


def test_another_revision_is_begun_again_while_the_old_one_serves(tmp_path: Path) -> None:
    _, machine = settled(tmp_path)
    node = connected(machine, model_revision="f" * 64)
    look(node)
    assert_message(*planned(node, "weights"))
    assert_message(*planned(node, "model"))


def test_refusal_ends_the_node_before_the_driver(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.answers = {
        "weights begin": described(state="refused", error="manifest is a, asked for b")
    }
    with raises_message(StageFailed):
        make(node, "weights")


@in_subtests("said", ["[]", "[" * 100_000, '{"complete": false, "complete": true}', "7"])
def test_answer_that_is_no_object_ends_the_node(said: str, tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.answers = {"weights begin": (True, said)}
    [*_, begin] = weights.plan(node)
    with pytest.raises(RemoteError):
        begin.apply(node)


def test_store_that_is_gone_does_not_stop_the_driver(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.answers = {"weights begin": described(state="failed", error="store: refused")}
    [*_, begin] = weights.plan(node)
    assert_message(begin.apply(node))


def begun(folder: Path, **changes: Any) -> tuple[Node, Machine]:
    """A node on which the fetch was begun."""
    node, machine = bare(folder, **changes)
    make(node, "weights")
    machine.log.clear()
    return node, machine


def test_failed_fetch_gets_one_whole_try_more_and_then_tells(tmp_path: Path) -> None:
    node, machine = begun(tmp_path)
    machine.answers = {
        "weights (wait|begin)": described(state="failed", error="a.bin: store: HTTP 503")
    }
    with raises_message(StageFailed):
        make(node, "model")
    acts = [line.split()[2] for line in machine.ran("node.pyz weights")]
    assert acts == ["wait", "begin", "wait"]


def test_corrupt_shard_is_not_fetched_again_by_the_same_run(tmp_path: Path) -> None:
    node, machine = begun(tmp_path)
    machine.answers = {"weights wait": described(state="refused", error="a.bin: store: corrupt")}
    with raises_message(StageFailed):
        make(node, "model")
    assert machine.ran("weights begin") == []


def test_unit_that_ended_without_a_word_is_told(tmp_path: Path) -> None:
    node, machine = begun(tmp_path)
    machine.answers = {"weights (wait|begin)": described(running=False)}
    with raises_message(StageFailed):
        make(node, "model")


def test_deadline_says_how_far_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, machine = begun(tmp_path, weights={"deadline_s": 10})
    machine.answers = {
        "weights wait": described(state="fetching", total_bytes=100, have_bytes=40, rate=2)
    }
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr("b200kit.stages.weights.time.monotonic", lambda: next(clock))
    with raises_message(StageFailed):
        make(node, "model")


def test_spoilt_model_is_fetched_again_by_name(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    wrong = {"a.bin": "changed since it was proven"}
    model = {"complete": True, "bytes": 9, "proof": "record", "wrong": wrong}
    machine.readings["weights"] = {"model": model, "revisions": [], "progress": None}
    look(node)
    [begin] = planned(node, "weights")
    assert_message(begin)
    make(node, "weights")
    assert machine.ran("weights begin .*--again")


def test_server_listens_only_where_asked_and_for_whom(tmp_path: Path) -> None:
    node, machine = bare(tmp_path, weights={"server": SERVER})
    make(node, "weights")
    unit = machine.text(SHARING)
    assert "--bind 0.0.0.0 --port 8090 --allow 10.0.0.0/24 --allow 10.0.1.7" in unit
    assert "IPAddressDeny=any\nIPAddressAllow=localhost 10.0.0.0/24 10.0.1.7\n" in unit
    assert machine.is_active(weights.SERVER)
    node, machine = bare(tmp_path)
    make(node, "weights")
    assert SHARING not in machine.files


def test_server_that_is_no_longer_asked_for_goes(tmp_path: Path) -> None:
    _, machine = settled(tmp_path, weights={"server": SERVER})
    node = connected(machine)
    look(node)
    assert planned(node, "weights") == [f"remove {SHARING}"]
    make(node, "weights")
    assert machine.ran(f"systemctl disable --now {weights.SERVER}")


def test_firewall_opens_the_weights_server_to_its_networks_alone(tmp_path: Path) -> None:
    node, _ = bare(tmp_path, weights={"server": SERVER}, firewall={"allow": []})
    asked = opened(node.spec)
    assert asked is not None
    rules = [line for line in firewall.rules(node, asked) if "8090" in line]
    assert rules == [
        "ip saddr 10.0.0.0/24 tcp dport 8090 accept",
        "ip saddr 10.0.1.7 tcp dport 8090 accept",
    ]


def test_old_revision_is_removed_once_the_new_one_serves(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, weights={"retain": 1})
    others = [
        {"model": "tiny-llama", "revision": name, "complete": True, "requested": False}
        for name in ("b" * 12, "a" * 12)
    ]
    model = {"complete": True, "bytes": 9, "proof": "record", "wrong": {}}
    machine.readings["weights"] = {"model": model, "revisions": others, "progress": None}
    look(node)
    path = f"/srv/models/tiny-llama/{'a' * 12}"
    assert_message(*planned(node, "weights"))
    make(node, "weights")
    assert machine.ran(f"weights drop --dest {path} .*--root /srv/models")
    machine.write(drift.pending_marker("restart:vllm@0.service"))
    look(node)
    assert planned(node, "weights") == []


@in_subtests(
    "requested",
    [
        {"server": {"bind": "0.0.0.0", "from": []}},
        {"server": {"bind": "0.0.0.0", "from": ["0.0.0.0/0"]}},
        {"server": {"bind": "::", "from": ["10.0.0.0/8", "8000::/1", "::/1"]}},
        {"server": {"bind": "0.0.0.0", "from": ["clients"]}},
        {"server": SERVER | {"port": 8000}},
        {"server": SERVER | {"port": 8001}},
        {"server": {"from": ["10.0.0.0/24"]}},
        {"peers": ["10.0.0.1:8090"]},
        {"retain": 0},
    ],
)
def test_what_cannot_be_is_refused_before_any_connection(requested: dict[str, Any]) -> None:
    found = parse(data(weights=requested), CATALOGUE)
    assert not isinstance(found, NodeSpec)
    assert_message(*[f"{one.key}: {one.message}" for one in found])
