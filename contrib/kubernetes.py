#!/usr/bin/env python3
"""Kubernetes as one that sends work to nodes: `traffic = ["haproxy", ["b200-kubernetes"]]`.

    b200-kubernetes drain NODE             cordoned; why is in B200_WHY
    b200-kubernetes status NODE            pods that are left, after another round of evictions
    b200-kubernetes undrain NODE PERCENT   uncordoned at 100; Kubernetes gives no shares
    b200-kubernetes cut NODE               nothing: pods end with the node

Kubernetes must know the node by its name in the inventory. Pods end as their own termination
grace says; one that a disruption budget keeps counts until the deadline. No pod is evicted while
one runs that no controller would start elsewhere: such pods are named, and the node waits for a
person, unless --delete-unmanaged lets them be deleted. A node that somebody else cordoned stays
so. Exit status 0: done; 2: a person must act; 1: it failed, and the number of pods is unknown.

Tried with kubectl 1.32.3 against a stand-in for the API server, held to the schema that Kubernetes
publishes of 1.32; never with a real cluster.
"""

import argparse
import json
import os
import subprocess
import sys
from typing import Any

# Annotation of a node that was cordoned here; why is its value.
MARK = "b200kit/quarantine"
Json = dict[str, Any]


def kubectl(*words: str, may_fail: bool = False) -> str:
    """What kubectl prints; where it fails and may not, it ends with 1."""
    try:
        done = subprocess.run(
            ["kubectl", *words], capture_output=True, text=True, errors="replace", timeout=100
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"kubectl gave no answer: {error}")
    if done.returncode and not may_fail:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        sys.exit(f"kubectl exited {done.returncode}: {said[-1]}")
    return done.stdout


def observe(node: str) -> tuple[Json, bool, bool]:
    """The node, whether it is cordoned, and whether that was done here."""
    found: Json = json.loads(kubectl("get", "node", node, "-ojson"))
    is_ours = MARK in (found.get("metadata", {}).get("annotations") or {})
    return found, bool(found.get("spec", {}).get("unschedulable")), is_ours


def working(node: str) -> list[Json]:
    """The pods that are work: not of a daemon set, none of the kubelet's own, not over."""
    where = f"--field-selector=spec.nodeName={node}"
    pods = json.loads(kubectl("get", "pods", "--all-namespaces", where, "-ojson"))["items"]
    return [
        pod
        for pod in pods
        if controller(pod) != "DaemonSet"
        and "kubernetes.io/config.mirror" not in (pod["metadata"].get("annotations") or {})
        and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]


def controller(pod: Json) -> str | None:
    """The kind of what would start the pod again elsewhere; an owner alone would not."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner["kind"] for owner in owners if owner.get("controller")), None)


def drain(node: str) -> str:
    _, is_cordoned, is_ours = observe(node)
    if is_cordoned and not is_ours:
        return "cordoned already, by somebody else"
    # Marked first, so that it is known whose cordon it is.
    why = os.environ.get("B200_WHY", "")
    kubectl("annotate", "node", node, "--overwrite", f"{MARK}={why}")
    kubectl("cordon", node)
    return "cordoned"


def status(node: str) -> str:
    lone = [pod["metadata"] for pod in working(node) if not controller(pod)]
    # Pods of a node whose kubelet does not answer may be gone, and nobody can tell.
    if (
        lone
        and not asked.delete_unmanaged
        and ("Ready", "True")
        in [
            (condition["type"], condition["status"])
            for condition in observe(node)[0]["status"]["conditions"]
        ]
    ):
        named = sorted(f"{pod.get('namespace', 'default')}/{pod['name']}" for pod in lone)
        more = f" and {len(named) - 5} more" if len(named) > 5 else ""
        what = f"no controller would start {', '.join(named[:5])}{more} again elsewhere, so no pod"
        remedy = "delete them, or add --delete-unmanaged to the command, and run again"
        print(f"{what} was evicted: {remedy}", file=sys.stderr)
        sys.exit(2)
    options = [
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        *["--force"] * asked.delete_unmanaged,
    ]
    # What could not be evicted in its time is counted, and tried again by the next call.
    kubectl("drain", node, *options, f"--timeout={asked.evict_s}s", may_fail=True)
    return str(len(working(node)))


def undrain(node: str, percent: str) -> str:
    if percent != "100":
        return "Kubernetes knows no shares: no pods until the node is whole"
    _, is_cordoned, is_ours = observe(node)
    if not is_ours:
        return "stays cordoned, by somebody else" if is_cordoned else "up"
    kubectl("uncordon", node)
    kubectl("annotate", "node", node, f"{MARK}-")
    return "uncordoned"


parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--delete-unmanaged", action="store_true")
parser.add_argument("--evict-s", type=int, default=10, help="how long one round of evictions takes")
parser.add_argument("verb", choices=["drain", "status", "undrain", "cut"])
parser.add_argument("node")
parser.add_argument("percent", nargs="?", default="100")
asked = parser.parse_args()
try:
    match asked.verb:
        case "drain":
            print(drain(asked.node))
        case "status":
            print(status(asked.node))
        case "undrain":
            print(undrain(asked.node, asked.percent))
        case "cut":
            print("pods end with the node")
except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
    sys.exit(f"what kubectl printed is no answer: {type(error).__name__}: {error}")
