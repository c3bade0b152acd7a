"""Kubernetes: cordoned, its pods evicted by `kubectl drain`, uncordoned when it is whole.

Pods end as their own termination grace says; what `drain` will not evict without --force is counted
as open until the deadline. Kubernetes gives a node no share: it comes back at 100. A node that
somebody else cordoned stays so. (kubectl 1.31; no cluster was there to try it on.)
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic.run_command import run
from b200kit.run.node import Node

MARK = "b200kit/quarantine"
"""Annotation of a node that was cordoned here; why is its value."""
_MIRROR = "kubernetes.io/config.mirror"
_OVER = ("Succeeded", "Failed")
_EVICT_S = 10


class Kubernetes:
    """The pods of a cluster."""

    name = "kubernetes"

    def take_out(self, node: Node, why: str) -> str:
        """No new pods; marked first, so that it is known whose cordon it is."""
        found = _node(node)
        if _cordoned(found) and not _marked(found):
            return "Kubernetes: cordoned already, by somebody else"
        words = " ".join(why.split())[:200]
        run(["kubectl", "annotate", "node", node.name, "--overwrite", f"{MARK}={words}"])
        run(["kubectl", "cordon", node.name])
        return "Kubernetes: cordoned"

    def drained(self, node: Node) -> int | None:
        """Pods that are left, after another round of evictions."""
        evict = ["kubectl", "drain", node.name, "--ignore-daemonsets", "--delete-emptydir-data"]
        # Whatever it could not evict in that time is counted below.
        with contextlib.suppress(ActionFailed):
            run([*evict, f"--timeout={_EVICT_S}s"], _EVICT_S + 30)
        where = f"--field-selector=spec.nodeName={node.name}"
        try:
            document = json.loads(
                run(["kubectl", "get", "pods", "--all-namespaces", where, "-ojson"])
            )
            return sum(_works(pod) for pod in document["items"])
        except (ActionFailed, ValueError, KeyError, TypeError, AttributeError):
            return None

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


def _node(node: Node) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(run(["kubectl", "get", "node", node.name, "-ojson"]))
    except ValueError as error:
        raise ActionFailed(f"kubectl's answer is no JSON: {error}") from None
    return found


def _cordoned(node: Mapping[str, Any]) -> bool:
    return bool(node.get("spec", {}).get("unschedulable"))


def _marked(node: Mapping[str, Any]) -> bool:
    return MARK in (node.get("metadata", {}).get("annotations") or {})


def _works(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is work: not one of a daemon set, none of the kubelet's own, not over."""
    about = pod["metadata"]
    owners = [owner.get("kind") for owner in about.get("ownerReferences") or ()]
    own = "DaemonSet" in owners or _MIRROR in (about.get("annotations") or {})
    return not own and pod.get("status", {}).get("phase") not in _OVER


TRAFFIC = Kubernetes()
