"""Replicas that podman runs on Debian 13: started from a bare system, judged, broken, restarted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.driving import Outcome
from tests.lab.paths import lab_paths
from tests.lab.vm import engine_image
from tests.vm import placement
from tests.vm.debian13.conftest import asked
from tests.vm.driving import Machine
from tests.vm.placement import REPLICAS

USER = "60900"
ACTIVE = ["active"] * len(REPLICAS)
# What decides what runs and will run: units, containers, images, and when each was made.
SERVING = """
sha256sum /etc/containers/systemd/* /etc/vllm/* /etc/b200kit/serving.json
podman ps --no-trunc --format '{{.ID}} {{.Image}}'; podman images --no-trunc --quiet
systemctl show -P InvocationID vllm@0 vllm@1 haproxy"""


@pytest.fixture(autouse=True)
def served(serving: Outcome) -> None:
    """Each test speaks of the machine as deployed."""
    assert serving.code == 0, serving.said


def inside(vm: Machine, number: int, script: str) -> str:
    """What a shell line says in a replica's container, as the engine's user."""
    return vm.on(f"podman exec vllm-{number} sh -c '{script}' 2>&1")


def pid(vm: Machine, number: int) -> int:
    """The engine's process, as the node has it."""
    return int(vm.on(f"podman inspect -f '{{{{.State.Pid}}}}' vllm-{number}"))


def status(vm: Machine, number: int) -> dict[str, str]:
    """What the kernel says of the engine's process."""
    lines = vm.on(f"cat /proc/{pid(vm, number)}/status").splitlines()
    return {name: text.strip() for name, _, text in (line.partition(":") for line in lines)}


def test_node_serves_from_the_image_that_was_asked_for(
    vm: Machine, serving: Outcome, image: str
) -> None:
    assert serving.outcome(vm.name) == "live", serving.described(vm.name)
    assert "STAND-IN" in serving.stdout
    assert vm.on("podman --version").startswith("podman version 5.")
    shown = vm.on("podman ps --sort names --format '{{.Names}} {{.Image}}'").splitlines()
    assert shown == [f"vllm-{number} {image}" for number in REPLICAS]
    assert vm.on("systemctl is-active vllm@0 vllm@1").split() == ACTIVE
    assert vm.on("systemctl --failed --plain --no-legend") == ""


def test_every_check_is_content_with_containers(vm: Machine, image: str) -> None:
    checked = vm.deploy("check.py", data=asked(image))
    assert checked.code == 0, checked.said
    assert checked.outcome(vm.name) == "fit", checked.described(vm.name)


@pytest.mark.parametrize("number", REPLICAS)
def test_engine_is_nobody_with_no_rights(vm: Machine, number: int) -> None:
    found = status(vm, number)
    assert found["Uid"].split() == [USER] * 4
    assert found["Gid"].split() == [USER] * 4
    sets = {name: int(text, 16) for name, text in found.items() if name.startswith("Cap")}
    assert len(sets) == 5
    assert not any(sets.values())
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
    assert "Read-only file system" in inside(vm, number, "touch /usr/it")
    assert inside(vm, number, f"touch /var/cache/vllm/{number}/it; echo $?") == "0"


@pytest.mark.parametrize("number", REPLICAS)
def test_engine_has_the_gpus_of_its_replica_and_no_other(vm: Machine, number: int) -> None:
    indices = range(4 * number, 4 * number + 4)
    found = inside(vm, number, "ls /dev | grep ^nvidia[0-9]").split()
    assert found == [f"nvidia{index}" for index in indices]
    uuids = inside(vm, number, "echo $CUDA_VISIBLE_DEVICES").split(",")
    assert {placement.kernels_node(vm, uuid) for uuid in uuids} == {number}


@pytest.mark.parametrize("number", REPLICAS)
def test_engine_is_held_where_its_gpus_are(vm: Machine, number: int) -> None:
    found = status(vm, number)
    assert found["Cpus_allowed_list"] == vm.on(f"cat /sys/devices/system/node/node{number}/cpulist")
    assert found["Mems_allowed_list"] == str(number)
    assert placement.policies(vm, pid(vm, number)) == {f"bind:{number}"}
    assert placement.memory(vm, pid(vm, number)) == {f"N{number}"}


def test_limits_are_in_force_in_a_container(vm: Machine) -> None:
    rows = vm.on(f"cat /proc/{pid(vm, 0)}/limits").splitlines()
    found = {line[:25].strip(): line[25:].split()[:2] for line in rows}
    assert found["Max locked memory"] == ["unlimited"] * 2
    assert found["Max open files"] == ["1048576"] * 2


def test_container_reaches_the_node_and_nothing_else(vm: Machine) -> None:
    ask = 'python3 -c "import socket; socket.create_connection((\\"{}\\", {}), 3)"'
    assert "TimeoutError" in inside(vm, 0, ask.format("10.77.0.1", 8780))
    assert inside(vm, 0, ask.format("127.0.0.1", 22)) == ""


def test_probe_ran_in_the_container_of_this_start(vm: Machine) -> None:
    found = json.loads(vm.on("cat /var/cache/vllm/0/probe.json"))
    assert found["invocation"] == vm.on("systemctl show -P InvocationID vllm@0")
    results = {step["name"]: step["result"] for step in found["steps"]}
    passed = {name for name, result in results.items() if result == "passed"}
    assert {"loopback", "shared-memory", "executable-memory", "cache"} <= passed, results
    assert set(results.values()) == {"passed", "not applicable"}


def test_key_is_in_no_description_of_a_container(vm: Machine) -> None:
    key = lab_paths().api_key.read_text().strip()
    said = vm.on(
        "podman inspect vllm-0 vllm-1; cat /etc/containers/systemd/*; podman events --stream=false"
    )
    assert "vllm-1" in said
    assert key not in said
    assert inside(vm, 0, "cat /run/b200kit-credentials/api_key") == key


def test_second_run_changes_nothing(vm: Machine, image: str) -> None:
    before, boot = vm.on(SERVING), vm.boot_id()
    again = vm.deploy(data=asked(image))
    assert (again.code, again.host(vm.name)["changes"]) == (0, 0), again.said
    assert (vm.on(SERVING), vm.boot_id()) == (before, boot)


def test_image_that_is_not_there_is_refused_before_a_replica_is_touched(
    vm: Machine, image: str
) -> None:
    before = vm.on(SERVING)
    other = image[:-8] + "00000000"
    refused = vm.deploy(data=asked(other))
    assert refused.code == 1
    assert "podman cannot pull the engine's image" in refused.described(vm.name)
    assert vm.on(SERVING) == before


def test_image_of_another_content_is_refused_by_its_digest(vm: Machine, image: str) -> None:
    """Somebody put another image where the registry keeps that of a digest."""
    before, other = vm.on(SERVING), f"sha256:{'ab' * 32}"
    manifests = lab_paths().documents / "v2" / engine_image.NAME / "manifests"
    true = Path(manifests / image.rpartition("@")[2]).read_bytes()
    (manifests / other).write_bytes(true)
    refused = vm.deploy(data=asked(engine_image.reference(other)))
    assert refused.code == 1
    assert "digest" in refused.described(vm.name)
    assert vm.on(SERVING) == before


def test_engine_that_was_killed_is_started_again(vm: Machine) -> None:
    was = pid(vm, 0)
    vm.on(f"kill -KILL {was}")
    shown = "systemctl show -p ActiveState -p NRestarts vllm@0 | sort | tr '\\n' ' '"
    vm.on(f'until [ "$({shown})" = "ActiveState=active NRestarts=1 " ]; do sleep 1; done', 300)
    assert pid(vm, 0) != was
    assert vm.on("systemctl is-active vllm@0 vllm@1").split() == ACTIVE


def test_containers_are_back_after_a_reboot(vm: Machine, image: str) -> None:
    vm.reboot()
    # is-active of several units is content with one; the gateway starts once the replicas are warm.
    all_of_them = " && ".join(
        f"systemctl is-active --quiet {unit}" for unit in ("vllm@0", "vllm@1", "haproxy")
    )
    vm.on(f"until {all_of_them}; do sleep 1; done", timeout=600)
    checked = vm.deploy("check.py", data=asked(image))
    assert checked.outcome(vm.name) == "fit", checked.described(vm.name)
