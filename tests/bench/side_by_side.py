"""Our client and `vllm bench serve` at one real vLLM, at the same time, on a node of the lab."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import tests.lab as lab
from tests.bench.figures import Missing, show
from tests.bench.pair import Pair, Seen, table, wire_pairs
from tests.bench.sent import METRICS, beyond, mean, sent
from tests.e2e.driving import ROOT, on
from tests.lab import cgroups, hosts
from tests.lab.paths import BRIDGE_ADDRESS, lab_paths

NODE, PORT, STARTS = "b200-1", 8001, 3
OUT = "/run/bench.json"


def main() -> None:
    """Deploy the demo's node, measure, and take it down again."""
    if os.geteuid() != 0:
        raise Missing("simulated nodes need root")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.lab.demo"], cwd=ROOT, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=1200, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Missing("the demo failed: " + (done.stdout + done.stderr)[-400:])
        if lab.status()["engine"]["stand_in"]:
            raise Missing("vLLM's CPU build cannot be had, the demo's engine is a stand-in")
        _measure(pair_of())
    finally:
        lab.down()


def pair_of() -> Pair:
    """Ours from this machine in the node's network, theirs from inside the node."""
    process = cgroups.init_pid(NODE)
    engine = on(NODE, "ls -d /opt/vllm/*/bin/vllm").removesuffix("/bin/vllm")
    return Pair(
        ours=["nsenter", f"--target={process}", "-n", "--"],
        theirs=["nsenter", *hosts.enter_arguments(NODE), "--"],
        engine=engine,
        model=on(NODE, "dirname /srv/models/*/*/tokenizer.json"),
        key=lab_paths().api_key.read_text().strip(),
        seen=Path(f"/proc/{process}/root{OUT}"),
        out=OUT,
    )


def _measure(pair: Pair) -> None:
    with tempfile.TemporaryDirectory() as folder:
        seen = pair.both(PORT, Path(folder) / "notes.json")
    print(table(seen))
    _show_agreement(seen)
    with socket.create_server((BRIDGE_ADDRESS, 0)) as listener:
        url = f"http://{BRIDGE_ADDRESS}:{listener.getsockname()[1]}"
        ours = [pair.start_up(pair.smoke(url), listener) for _ in range(STARTS)]
        # It would wait a minute for an endpoint that cuts it off.
        theirs = pair.start_up([*pair.bench(url), "--ready-check-timeout-sec", "0"], listener)
    show("to the first connection", ours_s=statistics.median(ours), theirs_s=theirs)


def _show_agreement(seen: Seen) -> None:
    """What either client adds to the wire, request by request, and the server's own means."""
    ours, theirs = wire_pairs(seen)
    for metric in METRICS:
        added = [statistics.median(beyond(*side, metric)) for side in (ours, theirs)]
        show(metric, ours_add_ms=added[0], theirs_add_ms=added[1])
    server = seen.ours["smoke"]["server"]
    for metric in ("ttft", "itl"):
        both = [mean(sent(found), metric) for found in (seen.ours["bench"], seen.theirs)]
        show(f"{metric} mean", server_ms=server[f"{metric}_mean_ms"], clients_ms=both)
    failed = [seen.ours["bench"]["failed"], seen.theirs["failed"]]
    show("requests", ours=len(ours[0]), theirs=len(theirs[0]), failed=failed)
