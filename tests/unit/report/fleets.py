"""Made-up answers of a fleet's nodes, as `node.pyz standing` gives them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.proof import PASS, Clock, GpuSeconds, NodeProof, ProofEvidence, ServingNow
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.node.state.watch import NodeFault
from b200kit.node.state.watchdog import ReplicaState
from b200kit.report.content.now.fleet import FleetNow, fleet_now
from b200kit.report.content.now.node import NodeAnswer, Planned

Json = dict[str, Any]
NOW = timestamp.parse("2026-11-25T09:18:12Z").timestamp()
AT, BOOT = "2026-11-25T09:18:10Z", "c0ffee00-0000-4000-8000-000000000001"
BOOT_S = 86_400.0


def stamp(before_s: float) -> str:
    """A time by the node's clock."""
    return timestamp.text(timestamp.parse(AT) - timedelta(seconds=before_s))


def proof(node: str, left_s: float = 3600.0, ttl_s: float = 10_000.0, **changed: Any) -> Json:
    """A proof of two replicas that expires so many seconds after AT, with its bandwidth."""
    issued_s = timestamp.parse(stamp(60)).timestamp()
    look = ProofEvidence("health", PASS, taken_at=stamp(60), ttl_s=7260.0)
    bandwidth = ProofEvidence("bandwidth", PASS, taken_at=stamp(ttl_s - left_s), ttl_s=ttl_s)
    made = NodeProof(
        node, BOOT, BOOT_S - 60, 41, stamp(60), (look, bandwidth), Clock(issued_s - BOOT_S + 60),
        ServingNow((0, 1), 8), 0.2, GpuSeconds(), max(0.0, -left_s - 60),
    )  # fmt: skip
    return {**unstructure(made), **changed}


def standing(node: str, **changed: Any) -> Json:
    """A sound node of two replicas."""
    return {
        "schema": "b200kit/standing/1", "at": AT, "boot_id": BOOT, "boot_s": BOOT_S,
        "watch": look(), "mark": None, "quarantine": None, "proof": proof(node), "drained": None,
        "headless": False, "replicas": [replica(0), replica(1)], "watchdog": {}, **changed,
    }  # fmt: skip


def replica(index: int, status: str = "UP", takes: Any = True) -> Json:
    """One replica, as the gateway has it."""
    return {"index": index, "gpus": 4, "status": status, "takes_requests": takes, "requests": 0}


def look(*faults: NodeFault, age_s: float = 8.0) -> Json:
    """The last look."""
    return {
        "schema": "b200kit/watch/1", "taken_at": stamp(age_s), "boot_s": BOOT_S - age_s,
        "took_s": 1.2, "in_service": True, "faults": [unstructure(fault) for fault in faults],
    }  # fmt: skip


def fault(summary: str = "GPU 3 has 17 of 18 NVLinks up", **changed: Any) -> NodeFault:
    """A confirmed fault of one GPU."""
    finding = Finding(summary, Status.FAIL, subject="GPU 3", action=Action.RESET_GPU,
                      check="nvlink.links", part="GPU 3 (module 8, PCI 0000:52:00.0)")  # fmt: skip
    return NodeFault(finding, (0,), stamp(250), ("fault", "fault"), **{"confirmed": True} | changed)


def kept(last: Json | None = None, **changed: Any) -> Json:
    """What the watchdog remembers of a replica."""
    return {**unstructure(ReplicaState(**changed)), "last": last or {"at": stamp(5)}}


def held(node: str) -> Json:
    """A node of which one replica is out for a fault."""
    found = fault()
    return standing(
        node, watch=look(found), replicas=[replica(0, "DRAIN", False), replica(1)],
        watchdog={"0": kept(out=True, held=found.finding.summary, why=found.finding.summary)},
    )  # fmt: skip


def known(document: object, **changed: Any) -> NodeAnswer:
    """An answer of two seconds ago."""
    return replace(NodeAnswer(document, NOW - 2, since=NOW - 900), **changed)


def fleet(
    nodes: dict[str, NodeAnswer],
    planned: dict[str, Planned] | None = None,
    rollouts: tuple[str, ...] = (),
) -> FleetNow:
    """The fleet of these nodes now."""
    return fleet_now(nodes, planned or {}, rollouts, NOW, 10.0)


def mixed() -> FleetNow:
    """Twelve nodes, of which most are sound and each of the others is another way."""
    sound = {f"n{i:02}": known(standing(f"n{i:02}")) for i in range(1, 13)}
    mark = {"schema": "b200kit/quarantine/1", "since": "2026-11-19T08:00:00Z",
            "who": "ops-on-call", "why": "replace GPU 4", "trial": None}  # fmt: skip
    expiring = proof("n03", 38 * 60.0, 100_000.0)
    expired = proof("n05", -600.0)
    down = [replica(0, "DRAIN", False), replica(1, "DRAIN", False)]
    given_up = kept(out=True, given_up=True, why="no answer in 20 s", ejections=(1.0, 2.0, 3.0))
    changed = {
        "n03": known(standing("n03", proof=expiring)),
        "n04": known(standing("n04"), why="no answer in 20 s", read_at=NOW - 260),
        "n05": known(standing("n05", proof=expired)),
        "n07": known(held("n07")),
        "n08": known(standing("n08", quarantine=mark, replicas=down)),
        "n09": known(standing("n09", replicas=down)),
        "n10": known(standing("n10", watch=look(age_s=400))),
        "n11": known(standing("n11", replicas=[replica(0), replica(1, "DRAIN", False)],
                              watchdog={"1": given_up}, mark={"when": stamp(4000)})),
    }  # fmt: skip
    work = "provisioned, out since 2026-11-25T09:10:00Z; change, wave 2 of 7, next: prove"
    rollout = "rollout  driver 580.142.07: wave 2 of 7, 3 changed, 1 out"
    return fleet(sound | changed, {"n09": Planned(work, change=True)}, (rollout,))


def thousand() -> FleetNow:
    """A thousand nodes, most sound; twenty without a proof, one out."""
    nodes = {f"n{i:04}": known(standing(f"n{i:04}")) for i in range(1, 1001)}
    for i in range(100, 120):
        nodes[f"n{i:04}"] = known(standing(f"n{i:04}", proof=None))
    return fleet(nodes | {"n0500": known(held("n0500"))})
