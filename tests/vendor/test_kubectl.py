"""contrib/kubernetes.py by Debian 13's kubectl (1.32), against a stand-in for the API server.

All that kubectl sends and is answered is held to the schema that Kubernetes publishes of 1.32.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic import CommandTraffic
from b200kit.run.node import Node
from tests.lab.mounts import remove_tree
from tests.lab.own_network import outside
from tests.lab.paths import lab_paths
from tests.lab.supply.debian_package import unpack
from tests.lab.supply.systems import NEWER
from tests.unit.contrib.kubernetes_api import Json
from tests.unit.contrib.test_kubernetes import MARK, SCRIPT, kube_node, owned_by, pod
from tests.unit.nodes import spec
from tests.vendor.api_server import ApiServer, listening

pytestmark = pytest.mark.vendor
KUBERNETES = CommandTraffic((SCRIPT, "--evict-s", "2"))
Serve = Callable[..., ApiServer]
NODE_PATH = "/api/v1/nodes/n7"


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """The folder of kubectl; downloaded the first time (19 MB and apt's lists)."""
    folder = lab_paths().cache / "kubectl-1.32"
    if not folder.is_dir():
        building = folder.with_name(f"{folder.name}.building")
        remove_tree(building)
        with outside():
            unpack(building, NEWER, "main", "kubectl")
        building.rename(folder)
    return folder / "root/usr/bin"


@pytest.fixture
def serve(kubectl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Start an API server that kubectl knows; nothing of it may be unlike the published API."""
    monkeypatch.setenv("PATH", f"{kubectl}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    started: list[ApiServer] = []
    with ExitStack() as stack:

        def start(*pods: Json, cordoned: bool = False, kept: str = "") -> ApiServer:
            node = json.loads(kube_node(cordoned, mine=False))
            server = ApiServer(node, list(pods), frozenset({kept}))
            started.append(server)
            url = stack.enter_context(listening(server))
            cluster = {"name": "one", "cluster": {"server": url}}
            context = {"name": "one", "context": {"cluster": "one", "user": ""}}
            config = {"clusters": [cluster], "contexts": [context], "current-context": "one"}
            kind = {"apiVersion": "v1", "kind": "Config"}
            (tmp_path / "config").write_text(json.dumps({**kind, **config}))
            return server

        yield start
    assert [problem for server in started for problem in server.problems] == []


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """The node that the server has."""
    return Node("n7", spec(tmp_path))


def running(name: str, owner: str = "ReplicaSet") -> Json:
    """A pod whole enough for kubectl."""
    found = pod(owner, name=name)
    return {**found, "spec": {"nodeName": "n7", "containers": [{"name": "one"}]}}


def test_node_is_marked_cordoned_drained_and_given_back(serve: Serve, node: Node) -> None:
    server = serve(
        running("a"), running("b", "Job"), running("c", "DaemonSet"), running("d", "Node")
    )
    assert KUBERNETES.drain(node, 'no "NVLink"\nof GPU 2 \N{COLLISION SYMBOL}') == (
        "kubernetes.py: cordoned"
    )
    mark = 'no "NVLink" of GPU 2 \N{COLLISION SYMBOL}'
    assert server.changes == [
        (NODE_PATH, {"metadata": {"annotations": {MARK: mark}}}),
        (NODE_PATH, {"spec": {"unschedulable": True}}),
    ]
    assert KUBERNETES.status(node) == 0
    assert sorted(server.pods) == ["c", "d"]
    assert KUBERNETES.drain(node, "why") == "kubernetes.py: cordoned"
    assert KUBERNETES.undrain(node, 100) == "kubernetes.py: uncordoned"
    assert (MARK in server.node["metadata"]["annotations"], server.node["spec"]) == (False, {})


def test_pod_that_a_disruption_budget_keeps_is_counted(serve: Serve, node: Node) -> None:
    server = serve(running("a"), running("b"), kept="b", cordoned=True)
    assert KUBERNETES.status(node) == 1
    assert list(server.pods) == ["b"]


def test_pod_that_nothing_would_start_again_keeps_all_of_them(serve: Serve, node: Node) -> None:
    lone = running("b", "")
    lone["metadata"]["ownerReferences"] = [owned_by("ReplicaSet")]
    server = serve(running("a"), lone)
    with pytest.raises(ActionFailed, match="team/b"):
        KUBERNETES.status(node)
    assert server.changes == []


def test_such_pods_are_evicted_where_the_site_lets_them(serve: Serve, node: Node) -> None:
    server = serve(running("a", ""), running("b"))
    assert CommandTraffic((SCRIPT, "--delete-unmanaged")).status(node) == 0
    assert server.pods == {}


def test_cordon_of_somebody_else_stays(serve: Serve, node: Node) -> None:
    server = serve(cordoned=True)
    assert "somebody else" in KUBERNETES.drain(node, "why")
    assert "somebody else" in KUBERNETES.undrain(node, 100)
    assert server.changes == []


def test_node_that_the_cluster_does_not_have_is_one_line(serve: Serve, tmp_path: Path) -> None:
    serve()
    with pytest.raises(
        ActionFailed,
        match=r"^kubernetes.py drain: kubectl exited 1: Error from server \(NotFound\)",
    ):
        KUBERNETES.drain(Node("n8", spec(tmp_path)), "why")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", NODE_PATH, {"spec": {"unschedulable": "yes"}}),
        ("PATCH", NODE_PATH, {"metadata": {"anotations": {}}}),
        ("PATCH", f"{NODE_PATH}?force=maybe", {}),
        ("DELETE", NODE_PATH, {}),
        ("POST", "/api/v1/namespaces/team/pods/a/eviction", {"metadata": {}, "grace": 1}),
    ],
)
def test_stand_in_names_what_the_api_does_not_have(method: str, path: str, body: Json) -> None:
    server = ApiServer(json.loads(kube_node(False, False)), [running("a")])
    server.handle(method, path, "application/merge-patch+json", body)
    assert len(server.problems) == 1
