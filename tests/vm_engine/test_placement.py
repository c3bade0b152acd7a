"""Two replicas of real vLLM on two NUMA nodes of the kernel's: each is where it was put."""

from __future__ import annotations

import pytest

from tests.e2e.driving import Outcome
from tests.vm import placement
from tests.vm.driving import Machine
from tests.vm.placement import REPLICAS

pytestmark = [pytest.mark.vm, pytest.mark.vm_engine]


@pytest.fixture(scope="module", autouse=True)
def serving(vm: Machine, deployed: Outcome) -> None:
    """Each test speaks of the machine as deployed.

    An emulated processor measures no latency, so the smoke test may say what it will.
    """
    record = deployed.host(vm.name)
    assert record["outcome"] == "live" or record["stage"] == "smoke", deployed.described(vm.name)


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


@pytest.fixture(scope="module")
def checked(vm: Machine, serving: None) -> Outcome:
    """What check.py says of the machine as it serves."""
    return vm.deploy("check.py")


def test_the_toolkit_saw_and_judged_the_same(vm: Machine, checked: Outcome) -> None:
    assert checked.code == 0, checked.said[-3000:]
    findings = checked.host(vm.name)["verdict"]["findings"]
    judged = {finding["check"]: finding for finding in findings}
    for check in ("placement.cpus", "placement.memory", "placement.gpus"):
        assert judged[check]["status"] == "pass"
        assert judged[check]["summary"].startswith("every ")


def test_a_worker_on_the_other_nodes_processor_is_found(vm: Machine, checked: Outcome) -> None:
    pid = placement.pids(vm, 0)[-1]
    vm.on(f"taskset -pc 1 {pid}")
    found = vm.deploy("check.py")
    vm.on(f"taskset -pc 0 {pid}")
    assert found.code == 1
    assert f"(pid {pid}) may run on CPUs 1" in found.described(vm.name)
