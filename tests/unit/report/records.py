"""Small builders of run records, as the deploy leaves them; every figure is made up."""

from __future__ import annotations

import copy
import random
from typing import Any

from b200kit.report.content.topology import FABRIC, LANE, LINKS, NUMA, PATH, PEERS
from tests.unit import smoke_results

Json = dict[str, Any]

GRAPH = (*LINKS, *FABRIC, *LANE, *PATH, *NUMA, *PEERS)
"""The checks that give a node's connections their colours."""
_STATUSES = ("pass", "fail", "unmeasured", "waived")
_MODULES = (6, 8, 7, 5, 2, 4, 3, 1)
_ADDRESSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
HARDWARE = {"name": "hgx-b200", "expect": {"nvlink.links": {"value": 18, "unit": "links"}}}
FORMULAS = {
    "ttft": "first streamed token - send",
    "itl": "gap between chunks, pooled over requests",
    "tpot": "(last token - first token) / (output tokens - 1)",
    "e2el": "last token - send",
}


def gpu(index: int, *, up: int = 18, fabric: int = 3) -> Json:
    """Return one GPU of NodeState with `up` of its 18 links up."""
    return {
        "index": index,
        "uuid": f"GPU-0000000{index}",
        "serial": f"165000000000{index}",
        "name": "NVIDIA B200",
        "pci_address": f"0000:{_ADDRESSES[index]}:00.0",
        "module_id": _MODULES[index],
        "vbios": "97.00.FA.00.09",
        "gsp_firmware": "580.126.20",
        "fabric": {"state": fabric, "status": 0, "clique_id": 0, "cluster_uuid": "0" * 32},
        "links": [{"link": n, "state": int(n < up)} for n in range(18)],
    }


def state(gpus: list[Json] | None = None, *, numa_of: tuple[int, ...] | None = None) -> Json:
    """Return a NodeState with `gpus` (eight healthy ones) on the NUMA nodes `numa_of`."""
    listed = [gpu(i) for i in range(8)] if gpus is None else gpus
    place = numa_of or (0, 0, 0, 0, 1, 1, 1, 1)
    size = len(listed)
    p2p = [[None if i == j else 0 for j in range(size)] for i in range(size)]
    return {
        "schema": "b200kit/node-state/1",
        "taken_at": "2026-11-21T09:40:12Z",
        "took_s": 0.9,
        "host": {"hostname": "b200-1", "kernel": "6.1.0-28-amd64", "os": {"pretty": "Debian 12"}},
        "numa": [
            {"id": n, "cpus": f"{n * 56}-{n * 56 + 55}", "memory_kib": 1056964608}
            for n in range(max(place) + 1)
        ],
        "pci": {"gpus": [{"address": g["pci_address"], "numa_node": place[i]} for i, g in
                         enumerate(listed)], "nics": []},
        "modules": {"nvidia": "580.126.20"},
        "packages": {
            "nvidia-fabricmanager": {"version": "580.126.20-1", "status": "ii", "hold": True},
            "nvlsm": {"version": "2025.06.11-1", "status": "ii", "hold": True},
            "nvidia-container-toolkit": None,
        },
        "nvml": {"driver_version": "580.126.20", "cuda_driver_version": "13.0"},
        "gpus": listed,
        "p2p": {kind: [list(row) for row in p2p] for kind in ("read", "write", "nvlink")},
        "files": {"/etc/b200kit/secrets/api_key": {"hmac": "c0ffee", "mode": "0600", "owner": "r"}},
    }  # fmt: skip


def finding(check: str = "gpus.count", status: str = "pass", **over: str) -> Json:
    """Return one Finding."""
    return {
        "check": check,
        "status": status,
        "subject": "node",
        "summary": "8 of 8 GPUs are there",
        "read": "8",
        "expected": "8",
        "source": "hardware/hgx-b200.yaml",
        "action": "none",
        "part": "",
        "waiver": None,
        **over,
    }


def lost_link_finding() -> Json:
    """Return the finding of GPU 2 without NVLink."""
    return finding(
        "nvlink.links",
        "fail",
        subject="GPU 2",
        summary="GPU 2 has no NVLink: 0 of 18 links up",
        read="state 0 on links 0-17",
        expected="18 links up",
        action="reset-gpu",
        part="GPU 2 (module 7, PCI 0000:52:00.0, serial 1650000000002)",
    )


def verdict(*findings: Json) -> Json:
    """Return a Verdict over `findings` and 60 that pass."""
    names = [*GRAPH, *(f"check.{i}" for i in range(60 - len(GRAPH)))]
    found = [*map(finding, names), *findings]
    counts = {s: sum(f["status"] == s for f in found) for s in _STATUSES}
    fit = "unfit" if counts["fail"] else "unmeasured" if counts["unmeasured"] else "fit"
    return {"schema": "b200kit/verdict/1", "fit": fit, "findings": found,
            "counts": counts}  # fmt: skip


def smoke(*, stand_in: bool = False, arrays: bool = True) -> Json:
    """Return a smoke result of 40 requests, whose n carries no P99."""
    rng = random.Random(7)
    scale = {"ttft": (40, 3.72, 0.2), "itl": (2520, 2.28, 0.12), "tpot": (40, 2.31, 0.08),
             "e2el": (40, 6.5, 0.1)}  # fmt: skip
    values = {
        k: sorted(rng.lognormvariate(m, s) for _ in range(n)) for k, (n, m, s) in scale.items()
    }
    changes: Json = {
        "taken_at": "2026-11-21T09:49:40Z",
        "main.num_prompts": 40,
        "main.completed": 40,
        "main.total_input_tokens": 5120,
        "main.total_output_tokens": 2560,
        "main.duration": 11.2,
        "main.request_throughput": 3.57,
        "main.output_throughput": 228.6,
        "main.request_goodput": 3.57,
        "main.p95_note": None,
        "main.p99_note": "n = 40 cannot carry a P99: it needs 300",
        "main.tokens_per_chunk": 1.0,
        "formulas": FORMULAS,
        "client.run_delay_ms": 12.0,
        "schedule_delay_ms.p99": 1.4,
        "server.ttft_mean_ms": 39.9,
        "server.prefix_hit_rate": {"unmeasured": "no"},
        "load.rate": 4.0,
        "load.seed": 1,
        "load.arrival": "poisson",
        "load.warmups": 6,
        "conditions.engine": "vllm 0.32.0 (CPU)",
        "conditions.stand_in": stand_in,
        "ttfts_ms": values["ttft"] if arrays else [],
        "itls_ms": values["itl"] if arrays else [],
        "requests": [],
    }
    for name, found in values.items():
        p50, p95 = found[len(found) // 2], found[int(len(found) * 0.95)]
        figures = {"n": len(found), "mean_ms": p50 * 1.04, "std_ms": 1.0, "max_ms": p50 * 1.9,
                   "p50_ms": p50, "p90_ms": p95, "p95_ms": p95, "p99_ms": None,
                   "p50_ci95_ms": [p50 * 0.97, p50 * 1.04], "p95_ci95_ms": [p50, None]}  # fmt: skip
        changes[f"main.{name}"] = figures
    doc = smoke_results.document(changes)
    return doc | {"direct": {"direct-0": copy.deepcopy(doc["main"])}}


def stages(*names: str) -> list[Json]:
    """Return stages that changed something, in order."""
    return [{"name": n, "status": "changed", "changes": [f"{n} set up"], "seconds": 12.0 + 9 * i,
             "detail": ""} for i, n in enumerate(names)]  # fmt: skip


def live(**over: Any) -> Json:
    """Return the HostRecord of a live node."""
    return {
        "outcome": "live",
        "stage": None,
        "error": None,
        "commands": 61,
        "changes": 4,
        "stages": stages("host", "driver", "fabric", "serving"),
        "state": state(),
        "verdict": verdict(),
        "smoke": smoke(),
        "smoke_age_s": None,
        "layout": [
            {"replica": 0, "gpus": [0, 1, 2, 3], "numa_nodes": [0], "cpus": "0", "port": 8001},
            {"replica": 1, "gpus": [4, 5, 6, 7], "numa_nodes": [1], "cpus": "1", "port": 8002},
        ],
        "expectation": {"gpu_count": 8, "hardware": HARDWARE},
        **over,
    }


def red() -> Json:
    """Return the HostRecord of a node whose GPU 2 lost its NVLinks; it was never served."""
    seen = state([gpu(i, up=0 if i == 2 else 18, fabric=1 if i == 2 else 3) for i in range(8)])
    for matrix in seen["p2p"].values():
        for i in range(8):
            matrix[2][i] = matrix[i][2] = None if i == 2 else 5
    return live(outcome="red", state=seen, verdict=verdict(lost_link_finding()), smoke=None,
                layout=[], stages=stages("host", "driver", "fabric"))  # fmt: skip


def unreachable() -> Json:
    """Return the HostRecord of a node that never answered."""
    return live(outcome="unreachable", error="no route to 10.77.0.13 port 22", state=None,
                verdict=None, smoke=None, layout=[], stages=[], commands=0, changes=0)  # fmt: skip


def failed() -> Json:
    """Return the HostRecord of a node that failed in the driver stage, before it was observed."""
    done = [*stages("host"), {"name": "driver", "status": "failed", "changes": [], "seconds": 8.5,
            "detail": "apt: Hash Sum mismatch"}]  # fmt: skip
    return live(outcome="failed", stage="driver", error="mirror: nvidia-open=580.126.20 not found",
                state=None, verdict=None, smoke=None, layout=[], stages=done)  # fmt: skip


def unmeasured() -> Json:
    """Return the HostRecord of a node whose driver is not loaded: NVML and more unread."""
    seen = state()
    gone = {"unmeasured": "Driver Not Loaded (9)"}
    seen |= {"nvml": gone, "gpus": gone, "p2p": gone}
    doubt = finding(
        "nvml.ready", "unmeasured", summary="NVML did not answer: Driver Not Loaded (9)"
    )
    return live(outcome="unmeasured", state=seen, verdict=verdict(doubt), smoke=None, layout=[])


def record(entry: str = "b200.py", **hosts: Json) -> Json:
    """Return a run record over `hosts`; underscores in their names become hyphens."""
    return {
        "schema": "b200kit/run/1",
        "run": "20261121-094012",
        "entry": entry,
        "argv": ["pyinfra", "inventories/prod.py", f"deploy/{entry}", "-y"],
        "started_at": "2026-11-21T09:40:12Z",
        "ended_at": "2026-11-21T09:52:03Z",
        "controller": {"wall_s": 711.0, "cpu_s": 9.5, "commands": 61},
        "hosts": {name.replace("_", "-"): host for name, host in hosts.items()},
    }


def fleet(entry: str = "b200.py") -> Json:
    """Return a run over one node of each kind."""
    return record(
        entry,
        n01=live(),
        n02=red(),
        n03=unreachable(),
        n04=failed(),
        n05=live(smoke=smoke(stand_in=True, arrays=False), smoke_age_s=7260.0, changes=0),
        n06=unmeasured(),
        n07=live(outcome="not reached", state=None, verdict=None, smoke=None, stages=[], layout=[]),
    )
