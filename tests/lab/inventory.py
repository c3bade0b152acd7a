"""The lab as a pyinfra inventory: hosts that are up, and the data a site would write by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from b200kit.run.session import RUN
from tests.lab.own_network import join
from tests.lab.paths import LabError, lab_paths
from tests.lab.power.bmc_system import system_id
from tests.lab.state import read_state
from tests.lab.vm import inventory as vm_inventory

Host = tuple[str, dict[str, Any]]

# Logits of the tiny model are about 2, where four steps of bfloat16 are 0.031 (below) or 0.063.
GOLDEN_TOLERANCE = 0.032

# The lab's nodes, their clients and whatever else runs here share a few busy CPUs: what that does
# to a figure is no fault of a node. It is measured and reported, and turns no node red: objectives
# that only a server that does not answer misses, and limits far beyond those of a node.
PATIENT = {
    "ttft_ms": 60_000.0, "tpot_ms": 20_000.0, "stall_ms": 60_000.0, "share": 0.75,
    "direct_requests": 6, "replica_slowdown": None, "golden_tolerance": GOLDEN_TOLERANCE,
}  # fmt: skip
_CPU_WAIT_LIMIT_FACTOR = 100.0
# What a stand-in answers is no latency; the measurement itself is what is tried out.
_SHORT = {"requests": 10, "rate": 20.0}


def nodes() -> list[Host]:
    """Every lab host with its connection and inventory data; refuses when no lab is up."""
    try:
        lab = read_state(lab_paths())
    except LabError as error:
        raise SystemExit(str(error)) from error
    if not lab.get("hosts"):
        raise SystemExit("no simulated node is up; run: b200 lab up")
    # pyinfra connects from this process.
    join()
    RUN.simulated = True
    return [(host["name"], connection(lab, host) | node(lab, host)) for host in lab["hosts"]]


def connection(lab: dict[str, Any], host: dict[str, Any]) -> dict[str, Any]:
    """How pyinfra reaches a host of the lab."""
    return {
        **({"ssh_port": host["port"]} if "port" in host else {}),
        **host.get("login", {}),
        "ssh_hostname": host["address"],
        "ssh_key": lab["ssh_key"],
        "ssh_known_hosts_file": host.get("known_hosts", lab["known_hosts"]),
    }


def node(lab: dict[str, Any], host: dict[str, Any]) -> dict[str, Any]:
    """What a host of the lab is asked to be."""
    plain = _data(lab)
    if "kind" in host:
        return vm_inventory.data(plain, lab, host)
    return plain | _outside(lab, host["name"])


def _outside(lab: dict[str, Any], name: str) -> dict[str, Any]:
    """Who switches a simulated node's power and who puts a new image on it."""
    b200 = str(Path(sys.executable).with_name("b200"))
    found: dict[str, Any] = {"reimage": {"command": [b200, "lab"]}}
    if bmc := lab.get("bmc"):
        found["bmc"] = {
            "address": bmc["url"],
            "user": bmc["user"],
            "password": {"file": bmc["password"]},
            "system": system_id(name),
            # Nodes that never answered a run have their power switched, too.
            "uuid": system_id(name),
            "ca_file": bmc["certificate"],
            "graceful_s": 20,
            "switch_s": 20,
        }
    return found


def _data(lab: dict[str, Any]) -> dict[str, Any]:
    mirror = lab["mirror"]
    return {
        "driver": "580.126.20",
        "repositories": [
            {
                "name": name,
                "url": f"{mirror['url']}/apt/{name}/",
                "key": mirror["apt_key"],
                "fingerprint": mirror["apt_fingerprint"],
            }
            for name in ("vendor", "debian")
        ],
        "engine": _engine(lab),
        "model": lab["model"]["name"],
        "model_store": f"{mirror['url']}/models",
        "model_revision": lab["model"]["revision"],
        "replicas": 2,
        "tensor_parallel": 4,
        # The simulated map has several NUMA nodes, this machine's kernel usually has one.
        "numa_policy": "local",
        "api_key": {"file": str(lab_paths().api_key)},
        "hf_token": {"file": str(lab_paths().token)},
        # The mirror speaks plain HTTP, over a bridge of this machine.
        "model_store_tls": "off",
        # Deadlines that only something that hangs misses: a busy machine is slow, and not hung.
        # What comes back is looked at, and not watched for minutes.
        "rollout": {"watch_s": 1},
        "reboot_deadline_s": 300,
        "fabric_deadline_s": 60,
        "warm_deadline_s": 1800,
        # Rounds differ here by what else the machine does; only what was compiled counts.
        "warm_tolerance": 1.0,
        "stage_timeout_s": 1800,
        "watchdog": {
            **{"deadline_s": 120.0, "stall_s": 600.0},
            # A look costs a second of the CPUs that all nodes of a lab share.
            **{"health_check_s": 300.0, "health_check_deadline_s": 120.0},
        },
        # What proves something must be looked at more often (tests/e2e/site/test_proof.py).
        "proof": {"issue": "off"},
        "console": "the lab's log of the host",
        # The clock is this machine's.
        "clock_synchronized": False,
        "smoke": PATIENT | (_SHORT if lab["engine"]["stand_in"] else {}),
        "cpu_wait_limit_factor": _CPU_WAIT_LIMIT_FACTOR,
    }


def _engine(lab: dict[str, Any]) -> dict[str, Any]:
    engine = lab["engine"]
    stand_in = bool(engine["stand_in"])
    cpu_only = {
        # One gibibyte of KV cache; threads stay on the CPUs the unit is pinned to.
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        # Whatever enforce-eager says, the first request for log probabilities compiles with g++
        # and with TP the embedding does: half a minute on a busy machine.
        "TORCHDYNAMO_DISABLE": "1",
    }
    return {
        "kind": "stand-in" if stand_in else "cpu",
        "version": engine["version"],
        "requirements": str(lab_paths().documents / "wheels" / engine["requirements"]),
        "wheelhouse": f"{lab['mirror']['url']}/wheels/",
        "environment": {} if stand_in else cpu_only,
        "flags": {"enforce-eager": True},
    }
