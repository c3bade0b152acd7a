"""One run at a time a node: whose lock stands, whose is taken over, and whose is given back."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from getpass import getuser
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib import lock
from b200kit.node.lib.documents import unstructure
from b200kit.node.state import drift
from b200kit.operations import observe as observation
from b200kit.run import process
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError
from b200kit.stages import pipeline
from tests.fake.machine import Machine
from tests.messages import raises_message
from tests.unit.nodes import connected

RUN = "20261121-101812"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine whose lock lies in tmp_path."""
    return Machine(tmp_path)


@pytest.fixture
def node(machine: Machine) -> Node:
    """The node of this run."""
    return connected(machine)


def hold(machine: Machine, owner: str, run: str = "other-run", by: object = None) -> None:
    """Let somebody hold the lock."""
    asked = {"owner": owner, "run": run, "process": by}
    assert lock.request(asked, machine.folder)["acquired"] is True


def holder(machine: Machine) -> dict[str, Any] | None:
    """The lock as it lies on the node."""
    path = machine.folder / "lock.json"
    held: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return held


def dead_process() -> dict[str, Any]:
    """A process that ended a moment ago, as it called itself."""
    said = (
        "import json; from b200kit.run import process; "
        "from b200kit.node.lib.documents import unstructure; "
        "print(json.dumps(unstructure(process.this())))"
    )
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def here(pid: int, user: str = "", controller: str = "") -> str:
    """An owner as this controller writes it."""
    return f"{user or getuser()}@{controller or socket.gethostname()} pid {pid}"


def test_owner_names_user_controller_and_process() -> None:
    assert process.owner() == here(os.getpid())


def test_free_node_is_locked_by_the_first_look(machine: Machine, node: Node) -> None:
    observation.refresh(node, RUN)
    held = holder(machine)
    assert held is not None
    assert (held["owner"], held["run"]) == (process.owner(), RUN)
    assert machine.log == ["node.pyz observe", *machine.ran("base64 -d"), "node.pyz observe"]


def test_next_look_keeps_the_lock(machine: Machine, node: Node) -> None:
    observation.refresh(node, RUN)
    observation.refresh(node, RUN)
    held = holder(machine)
    assert held is not None
    assert held["run"] == RUN


def test_look_without_a_lock_takes_none_and_minds_none(machine: Machine, node: Node) -> None:
    hold(machine, "alice@elsewhere pid 7")
    observation.refresh(node, RUN, lock=False)
    held = holder(machine)
    assert held is not None
    assert held["owner"] == "alice@elsewhere pid 7"
    assert node.state is not None
    assert "lock" not in {key for key, value in node.state.items() if value is not None}


def test_lock_of_a_dead_process_of_ours_is_taken_over(machine: Machine, node: Node) -> None:
    hold(machine, here(7), by=dead_process())
    observation.refresh(node, RUN)
    held = holder(machine)
    assert held is not None
    assert (held["owner"], held["run"]) == (process.owner(), RUN)


HERE = unstructure(process.this())
# Holders of whom nobody here can say that they are dead.
ALIVE: dict[str, object] = {
    "this process": HERE,
    "another id space": HERE | {"namespace": 1, "pid": 4_000_000},
    "another machine": HERE | {"machine": "of another", "pid": 4_000_000},
    "another user": HERE | {"user": HERE["user"] + 1, "pid": 4_000_000},
    "another boot in a container": HERE | {"boot": "before", "namespace": 1},
    "nothing": None,
    "words": "alice@one pid 7",
    "other keys": {"pid": 4_000_000},
}


@pytest.mark.parametrize("name", ALIVE)
def test_lock_of_anyone_else_stands_and_is_told_with_who_since_and_until(
    machine: Machine, node: Node, name: str
) -> None:
    hold(machine, "alice@one pid 4000000", by=ALIVE[name])
    held = holder(machine)
    assert held is not None
    with pytest.raises(StageFailed) as refused:
        observation.refresh(node, RUN)
    for message in ("alice@one pid 4000000", held["since"], held["until"]):
        assert message in str(refused.value)
    assert holder(machine) == held


def test_lock_taken_by_a_third_in_between_is_not_fought_over(machine: Machine, node: Node) -> None:
    hold(machine, here(7), by=dead_process())
    observe = machine.observation

    def overtaken(ask: dict[str, Any]) -> dict[str, Any]:
        seen = observe(ask)
        (machine.folder / "lock.json").unlink()
        hold(machine, "alice@elsewhere pid 7", "third-run")
        return seen

    machine.observation = overtaken  # type: ignore[method-assign]
    with raises_message(StageFailed):
        observation.refresh(node, RUN)
    held = holder(machine)
    assert held is not None
    assert held["run"] == "third-run"


@pytest.mark.parametrize("answer", [None, {"unmeasured": "PermissionError"}, [], "yes"])
def test_node_that_does_not_tell_of_its_lock_is_not_worked_on(
    machine: Machine, node: Node, answer: object
) -> None:
    observe = machine.observation
    machine.observation = lambda ask: observe(ask) | {"lock": answer}  # type: ignore[method-assign]
    with raises_message(StageFailed):
        observation.refresh(node, RUN)


def test_own_lock_is_given_back(machine: Machine, node: Node) -> None:
    observation.refresh(node, RUN)
    observation.release(node, RUN)
    assert holder(machine) is None


@pytest.mark.parametrize(
    ("owner", "run"),
    [
        ("alice@elsewhere pid 7", "other-run"),
        # Two runs that began in the same second have the same name.
        ("alice@elsewhere pid 7", RUN),
        (here(1), RUN),
    ],
)
def test_lock_of_another_is_never_given_back(
    machine: Machine, node: Node, owner: str, run: str
) -> None:
    hold(machine, owner, run)
    observation.release(node, RUN)
    held = holder(machine)
    assert held is not None
    assert held["owner"] == owner


def test_giving_back_where_there_is_no_lock_says_nothing(machine: Machine, node: Node) -> None:
    observation.release(node, RUN)
    assert holder(machine) is None


@pytest.mark.parametrize(
    "answer",
    ["not JSON at all", "", '["a", "list"]', "null", "{}", '{"schema": "b200kit/node-state/9"}'],
)
def test_observation_that_is_none_is_one_line(machine: Machine, node: Node, answer: str) -> None:
    machine.answers = {"node.pyz observe": (True, answer)}
    with raises_message(RemoteError):
        observation.refresh(node, RUN)


def test_one_request_asks_for_everything_any_stage_decides_by(node: Node) -> None:
    request = observation.observe_request(node)
    for stage in pipeline.stages():
        desired = stage.desired(node, node.replicas)
        files = {file.path for file in desired.files}
        assert files <= {*request["files"], *request["secrets"]}
        assert {p.name for p in desired.packages} <= set(request["packages"])
        assert {u.name for u in desired.units} <= {*request["units"], *request["placement"]}
        markers = {drift.pending_marker(act) for file in desired.files for act in file.notify}
        assert markers | set(desired.probe_files) <= set(request["files"])


def test_secret_is_asked_for_by_a_keyed_digest_alone(node: Node) -> None:
    request = observation.observe_request(node)
    assert set(request["secrets"].values()) == {node.nonce}
    assert not set(request["secrets"]) & set(request["files"])
    assert "canary-" not in json.dumps(request)


def test_every_run_keys_its_digests_again(machine: Machine) -> None:
    assert connected(machine).nonce != connected(machine).nonce
