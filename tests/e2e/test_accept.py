"""An acceptance run on a lab node: Debian's stress-ng and fio load it, stand-ins answer for GPUs.

A node that serves is refused; drained, it is tested under its own systemd while its process is
killed, the run is sealed with the node's own host key, and verified on the controller.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from b200kit import cli
from b200kit.node.lib import documents
from b200kit.node.state.acceptance import AcceptanceState, SegmentLine
from tests.e2e.conftest import Live
from tests.e2e.driving import ROOT, Outcome, front, on
from tests.lab import more_packages
from tests.lab.paths import host_address, lab_paths
from tests.unit.node.acceptance import outputs

pytestmark = pytest.mark.long

NODE = "b200-1"
UNIT = "b200-acceptance.service"
LEVEL = ("--class", "standard")
GPU_TOOLS = ("nvbandwidth", "all_reduce_perf", "gpu_burn", "dcgmi", "nvidia-smi")
TESTS = (outputs.PEER, "host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_local_copy")
# Prints what was recorded for its last word or, where there is none, for its name.
STAND_IN = """#!/bin/sh
for word; do last=$word; done
folder=/opt/recorded; name=$(basename "$0")
# Long enough that the GPUs are read meanwhile.
[ $name = nvidia-smi ] || sleep 3
[ -e "$folder/$last" ] && exec cat "$folder/$last"
exec cat "$folder/$name"
"""


def put(path: str, text: str) -> None:
    """Write a file on the node."""
    coded = base64.b64encode(text.encode()).decode()
    on(NODE, f"mkdir -p $(dirname {path}); echo {coded} | base64 -d > {path}; chmod 755 {path}")


def recorded() -> dict[str, str]:
    """What the stand-ins print, by file."""
    data = ROOT / "tests" / "data" / "acceptance"
    cool = "".join(f"{number}, 0, 30\n" for number in range(8))
    return {
        **{test: outputs.nvbandwidth(test) for test in TESTS},
        "all_reduce_perf": outputs.all_reduce(),
        "gpu_burn": (data / "gpu-burn.txt").read_text(),
        "dcgmi": (data / "dcgm-4.6-pass.json").read_text(),
        "nvidia-smi": cool,
    }


def state() -> AcceptanceState:
    """How far the node says it is."""
    said = on(NODE, "python3 -I /usr/local/lib/b200kit/node.pyz acceptance state")
    return documents.decode(AcceptanceState, said)


@pytest.fixture(scope="module")
def refused(live: Live) -> Outcome:
    """A run asked for while the node serves."""
    live(1)
    return front("accept", NODE, *LEVEL)


@pytest.fixture(scope="module")
def accepted(refused: Outcome) -> Outcome:
    """A run of half an hour's level, on a node that has all tools and does not serve."""
    more_packages.install([NODE], "burn-in", ("stress-ng", "fio"))
    for name, text in recorded().items():
        put(f"/opt/recorded/{name}", text)
    for tool in GPU_TOOLS:
        put(f"/usr/local/bin/{tool}", STAND_IN)
    on(NODE, "systemctl stop vllm.target haproxy b200-agent; systemctl stop 'vllm@*'")
    # Its process dies once, in the middle of Debian's stress-ng; systemd starts it again.
    kill = (
        f"for n in $(seq 3000); do pgrep -x stress-ng >/dev/null && break; sleep 0.1; done; "
        f"systemctl kill --signal=KILL {UNIT}"
    )
    on(NODE, f"systemd-run --quiet --unit=killer sh -c {json.dumps(kill)}")
    return front("accept", NODE, *LEVEL)


def folder(outcome: Outcome) -> Path:
    """The sealed folder of a run."""
    result = outcome.host(NODE)["acceptance"]
    return ROOT / "acceptance" / str(result["folder"])


def lines(outcome: Outcome) -> list[SegmentLine]:
    """What came of each segment."""
    text = (folder(outcome) / "lines.jsonl").read_text()
    return [documents.decode(SegmentLine, line) for line in text.splitlines()]


def test_node_that_serves_is_refused_and_serves_on(refused: Outcome) -> None:
    assert refused.code == 1, refused.said[-2000:]
    assert "vllm@0.service" in refused.described(NODE)


def test_real_tools_loaded_the_host(accepted: Outcome) -> None:
    assert accepted.directory is not None, accepted.said[-4000:]
    found = {line.test: line for line in lines(accepted)}
    cpu = {value.metric: value.value for value in found["host-cpu"].values}
    assert found["host-cpu"].outcome == "done", found["host-cpu"]
    assert cpu["cpu_bogo_ops_per_s"] > 0
    assert found["host-memory"].outcome == "done", found["host-memory"]


def test_killed_process_went_on_and_nothing_counts_twice(accepted: Outcome) -> None:
    assert accepted.directory is not None, accepted.said[-4000:]
    assert on(NODE, f"systemctl show -P Result {UNIT}") != "signal"
    numbers = [(line.step, line.attempt) for line in lines(accepted)]
    assert len(numbers) == len(set(numbers))
    assert state().status == "finished"


def test_verdict_says_what_a_container_cannot_tell_and_nothing_else(accepted: Outcome) -> None:
    findings = accepted.host(NODE)["verdict"]["findings"]
    found = {(f["status"], f["summary"]) for f in findings if f["status"] in ("fail", "unmeasured")}
    # The kernel shows no memory controller in a container.
    assert found == {("unmeasured", "edac_ue was never read")}
    assert accepted.code == 2
    assert accepted.outcome(NODE) == "unmeasured"


def test_seal_holds_until_a_byte_is_another(accepted: Outcome) -> None:
    sealed = folder(accepted)
    keys = ("--known-hosts", str(lab_paths().known_hosts), "--node", NODE)
    asked = ["acceptance", "verify", str(sealed), *keys, "--name", host_address(NODE)]
    assert cli.main(asked) == 0
    file = sealed / "lines.jsonl"
    kept = file.read_bytes()
    file.write_bytes(kept.replace(b'"host-cpu"', b'"host-cpV"', 1))
    assert cli.main(asked) == 1
    file.write_bytes(kept)
