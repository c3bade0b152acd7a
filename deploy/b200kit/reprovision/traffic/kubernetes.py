"""Kubernetes: cordoned, its pods evicted by `kubectl drain`, uncordoned when it is whole.

Pods end as their own termination grace says; one that a disruption budget keeps counts as open
until the deadline. `kubectl drain` evicts no pod at all while one is there that no controller would
start elsewhere; such pods are named, and the node waits for a person, unless the inventory lets
them be deleted. Kubernetes gives a node no share: it comes back at 100. A node that somebody else
cordoned stays so.

Tried with Debian 13's kubectl 1.32.3 against a stand-in for the API server; what is sent and
answered is held to the schema that Kubernetes publishes of 1.32 (tests/vendor/test_kubectl.py,
tests/data/kubernetes-1.32.json). Never with a real cluster.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from b200kit.node.lib import documents
from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic.run_command import one_line, run
from b200kit.run.node import Node

MARK = "b200kit/quarantine"
"""Annotation of a node that was cordoned here; why is its value."""
_MIRROR = "kubernetes.io/config.mirror"
_OVER = ("Succeeded", "Failed")
_EVICT_S = 10
_MOST_NAMED = 5
_UNREADABLE = (ActionFailed, ValueError, KeyError, TypeError, AttributeError)


class Kubernetes:
    """The pods of a cluster."""

    name = "kubernetes"

    def take_out(self, node: Node, why: str) -> str:
        """No new pods; marked first, so that it is known whose cordon it is."""
        found = _node(node)
        if _cordoned(found) and not _marked(found):
            return "Kubernetes: cordoned already, by somebody else"
        run(["kubectl", "annotate", "node", node.name, "--overwrite", f"{MARK}={one_line(why)}"])
        run(["kubectl", "cordon", node.name])
        return "Kubernetes: cordoned"

    def drained(self, node: Node) -> int | None:
        """Pods that are left, after another round of evictions.

        Raises ActionFailed, and evicts none, while pods run that nothing would start elsewhere.
        """
        may_delete = node.spec.reprovision.unmanaged_pods == "delete"
        try:
            lone = [_named(pod) for pod in _pods(node) if _works(pod) and not _controller(pod)]
            run_there = bool(lone) and not may_delete and _is_ready(_node(node))
        except _UNREADABLE:
            return None
        if run_there:
            raise ActionFailed(_refused(lone))
        self._evict(node, *(["--force"] if may_delete else []))
        try:
            return sum(map(_works, _pods(node)))
        except _UNREADABLE:
            return None

    def _evict(self, node: Node, *options: str) -> None:
        """Whatever it could not evict in its time is counted, and tried again."""
        argv = ["kubectl", "drain", node.name, "--ignore-daemonsets", "--delete-emptydir-data"]
        with contextlib.suppress(ActionFailed):
            run([*argv, *options, f"--timeout={_EVICT_S}s"], _EVICT_S + 30)

    def bring_back(self, node: Node, share_percent: int) -> str:
        """Uncordoned once it is whole, if it was cordoned here."""
        if share_percent < 100:
            return "Kubernetes knows no shares: no pods until the node is whole"
        found = _node(node)
        if not _marked(found):
            return f"Kubernetes: {'stays cordoned, by somebody else' if _cordoned(found) else 'up'}"
        run(["kubectl", "uncordon", node.name])
        run(["kubectl", "annotate", "node", node.name, f"{MARK}-"])
        return "Kubernetes: uncordoned"


def _get(*words: str) -> Mapping[str, Any]:
    said, source = run(["kubectl", "get", *words, "-ojson"]), f"kubectl get {words[0]}"
    try:
        return documents.decode(documents.Object, said, documents.LARGE, source)
    except documents.Malformed as error:
        raise ActionFailed(str(error)) from None


def _node(node: Node) -> Mapping[str, Any]:
    return _get("node", node.name)


def _cordoned(node: Mapping[str, Any]) -> bool:
    return bool(node.get("spec", {}).get("unschedulable"))


def _marked(node: Mapping[str, Any]) -> bool:
    return MARK in (node.get("metadata", {}).get("annotations") or {})


def _is_ready(node: Mapping[str, Any]) -> bool:
    """Whether its kubelet answers; pods of one that does not may be gone, and nobody can tell."""
    conditions = node["status"]["conditions"]
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def _pods(node: Node) -> list[Mapping[str, Any]]:
    where = f"--field-selector=spec.nodeName={node.name}"
    found: list[Mapping[str, Any]] = _get("pods", "--all-namespaces", where)["items"]
    return found


def _works(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is work: not one of a daemon set, none of the kubelet's own, not over."""
    own = _controller(pod) == "DaemonSet" or _MIRROR in (pod["metadata"].get("annotations") or {})
    return not own and pod.get("status", {}).get("phase") not in _OVER


def _controller(pod: Mapping[str, Any]) -> str | None:
    """The kind of what would start the pod again elsewhere; an owner alone would not."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner["kind"]) for owner in owners if owner.get("controller")), None)


def _named(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def _refused(pods: list[str]) -> str:
    more = f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else ""
    return (
        f"Kubernetes: no controller would start {', '.join(sorted(pods)[:_MOST_NAMED])}{more} "
        "again elsewhere, so no pod was evicted: delete them, or set "
        'reprovision.unmanaged_pods = "delete", and run again'
    )


TRAFFIC = Kubernetes()
