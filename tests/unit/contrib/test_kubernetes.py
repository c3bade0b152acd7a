"""contrib/kubernetes.py: its exact command lines against a stand-in kubectl.

What the stand-in prints is held to Kubernetes' published schema, which knows no other field: so it
reads only what there is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic import CommandTraffic
from b200kit.run.node import Node
from tests.messages import raises_message
from tests.unit.contrib.conftest import CONTRIB
from tests.unit.contrib.kubernetes_api import NODE, PODS, held, problems
from tests.unit.nodes import spec
from tests.unit.programs import Programs

SCRIPT, MARK = str(CONTRIB / "kubernetes.py"), "b200kit/quarantine"
KUBERNETES = CommandTraffic((SCRIPT,))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """The node that kubectl is asked about."""
    return Node("n7", spec(tmp_path))


def kube_node(cordoned: bool, mine: bool, ready: str = "True") -> str:
    """What `kubectl get node -ojson` prints, less what is not read."""
    notes = {MARK: "why"} if mine else {}
    spec_ = {"unschedulable": True} if cordoned else {}
    conditions = [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": ready}]
    about = {"name": "n7", "annotations": notes}
    kind = {"apiVersion": "v1", "kind": "Node"}
    status = {"conditions": conditions}
    return held(NODE, {**kind, "metadata": about, "spec": spec_, "status": status})


GET = "kubectl|get|node|n7|-ojson"


def test_kubernetes_is_marked_before_it_is_cordoned(programs: Programs, node: Node) -> None:
    programs.answer("kubectl", ("get node", kube_node(False, False), 0), ("", "", 0))
    KUBERNETES.drain(node, "no\n\0NVLink")
    assert programs.ran() == [
        GET,
        "kubectl|annotate|node|n7|--overwrite|b200kit/quarantine=no \\x00NVLink",
        "kubectl|cordon|n7",
    ]


def test_kubernetes_leaves_the_cordon_of_somebody_else(programs: Programs, node: Node) -> None:
    programs.answer("kubectl", ("get node", kube_node(True, False), 0))
    assert "by somebody else" in KUBERNETES.drain(node, "why")
    assert "stays cordoned" in KUBERNETES.undrain(node, 100)
    assert programs.ran() == [GET, GET]


def test_kubernetes_uncordons_its_own_once_it_is_whole(programs: Programs, node: Node) -> None:
    programs.answer("kubectl", ("get node", kube_node(True, True), 0), ("", "", 0))
    assert "no shares" in KUBERNETES.undrain(node, 99)
    assert KUBERNETES.undrain(node, 100) == "kubernetes.py: uncordoned"
    assert programs.ran() == [
        GET,
        "kubectl|uncordon|n7",
        "kubectl|annotate|node|n7|b200kit/quarantine-",
    ]


def pod(owner: str = "ReplicaSet", phase: str = "Running", name: str = "p") -> dict[str, Any]:
    """A pod as the API has it, as far as it is read; *owner* "": a bare one."""
    # The kubelet's own pods belong to the node; a copy of each is in the API.
    notes = {"kubernetes.io/config.mirror": "x"} if owner == "Node" else {}
    owners = {"ownerReferences": [{**owned_by(owner), "controller": True}]} if owner else {}
    about = {"name": name, "namespace": "team", "annotations": notes, **owners}
    kind = {"apiVersion": "v1", "kind": "Pod"}
    return {**kind, "metadata": about, "status": {"phase": phase}}


def owned_by(kind: str) -> dict[str, Any]:
    """The owner of a pod, which need not be its controller."""
    return {"apiVersion": "apps/v1", "kind": kind, "name": "one", "uid": "7d2a"}


def items(*pods: dict[str, Any]) -> str:
    """What `kubectl get pods -ojson` prints: it names the list "List", and the API "PodList"."""
    document = {"apiVersion": "v1", "kind": "PodList", "items": list(pods), "metadata": {}}
    return held(PODS, document).replace('"PodList"', '"List"')


ORPHAN = pod() | {
    "metadata": {"name": "orphan", "namespace": "team", "ownerReferences": [owned_by("ReplicaSet")]}
}
GET_PODS = "kubectl|get|pods|--all-namespaces|--field-selector=spec.nodeName=n7|-ojson"
DRAIN = "kubectl|drain|n7|--ignore-daemonsets|--delete-emptydir-data"
LATE = "error: unable to drain node n7 due to error: global timeout reached: 10s"


@pytest.mark.parametrize(
    ("said", "code", "pods"),
    [
        (items(), 0, 0),
        (items(pod(), pod("Job", "Pending"), pod("FlinkDeployment")), 0, 3),
        (items(pod("DaemonSet"), pod("Node")), 0, 0),
        (items(pod(phase="Succeeded"), pod(phase="Failed"), pod("", "Succeeded")), 0, 0),
        ("The connection to the server was refused", 1, None),
        ("{}", 0, None),
        ("no JSON", 0, None),
        ('{"items": [{}]}', 0, None),
    ],
)
def test_pods_are_evicted_and_counted(
    programs: Programs, node: Node, said: str, code: int, pods: int | None
) -> None:
    programs.answer("kubectl", ("get pods", said, code), ("drain", LATE, 1))
    assert KUBERNETES.status(node) == pods
    evicted = [f"{DRAIN}|--timeout=10s", GET_PODS] if pods is not None else []
    assert programs.ran() == [GET_PODS, *evicted]


@pytest.mark.parametrize(
    "lone", [[pod("", name="bare")], [ORPHAN], [pod("", name=f"bare-{n}") for n in range(7)]]
)
def test_pod_that_nothing_would_start_again_is_named_before_any_is_evicted(
    programs: Programs, node: Node, lone: list[dict[str, Any]]
) -> None:
    said = items(pod(name="managed"), pod("DaemonSet"), *lone)
    programs.answer("kubectl", ("get pods", said, 0), ("get node", kube_node(True, True), 0))
    with raises_message(ActionFailed):
        KUBERNETES.status(node)
    assert programs.ran() == [GET_PODS, GET]


def test_site_may_let_such_pods_be_deleted(programs: Programs, node: Node) -> None:
    programs.answer("kubectl", ("get pods", items(pod(""), pod()), 0), ("drain", LATE, 1))
    assert CommandTraffic((SCRIPT, "--delete-unmanaged")).status(node) == 2
    assert programs.ran() == [GET_PODS, f"{DRAIN}|--force|--timeout=10s", GET_PODS]


@pytest.mark.parametrize(("ready", "left"), [("False", 1), ("Unknown", 1)])
def test_such_pod_of_a_node_that_is_dead_to_kubernetes_counts_as_open(
    programs: Programs, node: Node, ready: str, left: int
) -> None:
    """Nobody can tell whether it runs, and it must not keep a dead node from its repair."""
    of_node = kube_node(True, True, ready)
    programs.answer(
        "kubectl", ("get pods", items(pod("")), 0), ("get node", of_node, 0), ("drain", LATE, 1)
    )
    assert KUBERNETES.status(node) == left


def test_what_kubernetes_does_not_say_of_a_node_is_unknown(programs: Programs, node: Node) -> None:
    programs.answer("kubectl", ("get pods", items(pod("")), 0), ("get node", "{}", 0))
    assert KUBERNETES.status(node) is None
    assert programs.ran() == [GET_PODS, GET]


@pytest.mark.parametrize("answer", ["", "[]", "{", '{"metadata": []}'])
def test_answer_that_is_none_is_one_line(programs: Programs, node: Node, answer: str) -> None:
    programs.answer("kubectl", ("get node", answer, 0))
    with pytest.raises(ActionFailed, match="what kubectl printed is no answer"):
        KUBERNETES.drain(node, "why")
    assert programs.ran() == [GET]


@pytest.mark.parametrize(
    "spoiled",
    [
        {"metadata": {"anotations": {}}},
        {"metadata": {"annotations": {MARK: 1}}},
        {"spec": {"unschedulable": "true"}},
        {"spec": {"unscheduleable": True}},
        {"status": {"conditions": [{"type": "Ready"}]}},
        {"status": {"conditions": [{"type": "Ready", "status": True}]}},
    ],
)
def test_schema_refuses_what_the_api_does_not_have(spoiled: dict[str, Any]) -> None:
    assert problems(NODE, {"apiVersion": "v1", "kind": "Node", **spoiled})
