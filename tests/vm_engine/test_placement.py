"""Two replicas of real vLLM on two NUMA nodes of the kernel's: each is where it was put."""

from __future__ import annotations

import pytest

from tests.e2e.driving import Outcome
from tests.vm import placement
from tests.vm.driving import Machine
from tests.vm.placement import REPLICAS

pytestmark = [pytest.mark.vm, pytest.mark.vm_engine]


@pytest.fixture(autouse=True)
def serving(vm: Machine, deployed: Outcome) -> None:
    """Each test speaks of the machine as deployed."""
    assert deployed.outcome(vm.name) == "live", deployed.told(vm.name)


def test_what_serves_is_vllm(vm: Machine) -> None:
    for replica in REPLICAS:
        threads = vm.on(f"cat /proc/{placement.main_pid(vm, replica)}/cmdline | tr '\\0' ' '")
        assert "/bin/vllm serve" in threads
        assert len(placement.pids(vm, replica)) >= 3, "server, engine and worker"


@pytest.mark.parametrize("replica", REPLICAS)
def test_every_process_runs_on_the_processors_of_its_gpus_node(vm: Machine, replica: int) -> None:
    (node,) = {placement.kernels_node(vm, uuid) for uuid in placement.gpus(vm, replica)}
    allowed = placement.allowed(vm, replica)
    assert len(allowed) > len(placement.pids(vm, replica)), "threads"
    assert all(processors <= placement.near(vm, node) for processors in allowed)


@pytest.mark.parametrize("replica", REPLICAS)
def test_every_process_has_its_memory_on_that_node(vm: Machine, replica: int) -> None:
    for pid in placement.pids(vm, replica):
        # A few pages of the engine's libraries are "local": near the processor, which is pinned.
        assert placement.policies(vm, pid) - {"local"} == {f"bind:{replica}"}
        assert placement.memory(vm, pid) == {f"N{replica}"}


def test_the_toolkit_saw_and_judged_the_same(vm: Machine, deployed: Outcome) -> None:
    record = deployed.host(vm.name)
    judged = {finding["check"]: finding for finding in record["verdict"]["findings"]}
    for check in ("placement.cpus", "placement.memory"):
        assert judged[check]["status"] == "pass"
        assert "every process" in judged[check]["summary"]
