"""From a bare system to a serving node on a kernel of its own: what a container cannot show."""

from __future__ import annotations

import pytest

from tests.vm import placement
from tests.vm.conftest import DATA, Deployed
from tests.vm.driving import Machine
from tests.vm.placement import CGROUP, REPLICAS

DRIVER = "580.126.20"


@pytest.fixture(autouse=True)
def serving(deployed: Deployed) -> None:
    """Each test speaks of the machine as deployed."""
    assert deployed.outcome.code == 0, deployed.outcome.said


def test_one_run_with_exactly_one_reboot_makes_a_live_node(vm: Machine, deployed: Deployed) -> None:
    assert deployed.outcome.outcome(vm.name) == "live", deployed.outcome.described(vm.name)
    assert deployed.boots == 1
    assert deployed.new_boot_id
    assert deployed.same_process, "the emulator was restarted: that was no reboot"


def test_the_boot_loader_gave_the_kernel_what_its_drop_in_says(vm: Machine) -> None:
    lines = vm.on("grep -h '^GRUB_CMDLINE' /etc/default/grub.d/zz-b200kit.cfg").splitlines()
    words = {word for line in lines for word in line.split('"')[1].split() if "GRUB" not in word}
    assert words
    assert words <= set(vm.on("cat /proc/cmdline").split())


def test_dkms_built_the_driver_and_the_kernel_loaded_it(vm: Machine) -> None:
    kernel = vm.on("uname -r")
    assert vm.on(f"dkms status -m nvidia -v {DRIVER} -k {kernel}").endswith("installed")
    assert vm.on("modinfo -F version nvidia") == DRIVER
    assert vm.on("modinfo -n nvidia") == f"/lib/modules/{kernel}/updates/dkms/nvidia.ko"
    assert vm.on("cat /sys/module/nvidia/version") == DRIVER
    assert int(vm.on("ls -d /sys/bus/pci/drivers/nvidia/0000:* | wc -l")) == 8
    assert f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}" in vm.on("dmesg")


def test_kernel_loaded_the_fabrics_modules(vm: Machine) -> None:
    loaded = {line.split()[0] for line in vm.on("cat /proc/modules").splitlines()}
    assert {"mlx5_core", "mlx5_ib", "ib_umad"} <= loaded


@pytest.mark.parametrize("replica", REPLICAS)
def test_limits_are_in_force_for_what_serves(vm: Machine, replica: int) -> None:
    text = vm.on(f"cat /proc/{placement.main_pid(vm, replica)}/limits")
    rows = {line[:25].strip(): line[25:].split() for line in text.splitlines()}
    assert rows["Max locked memory"][:2] == ["unlimited", "unlimited"]
    assert rows["Max open files"][:2] == ["1048576", "1048576"]


@pytest.mark.parametrize("replica", REPLICAS)
def test_replica_runs_on_the_processors_of_its_gpus_node(vm: Machine, replica: int) -> None:
    uuids = placement.gpus(vm, replica)
    assert len(uuids) == 4
    (node,) = {placement.kernels_node(vm, uuid) for uuid in uuids}
    allowed = placement.allowed(vm, replica)
    assert allowed
    assert all(processors <= placement.near(vm, node) for processors in allowed)


@pytest.mark.parametrize("replica", REPLICAS)
def test_memory_is_bound_to_that_node_by_the_kernel(vm: Machine, replica: int) -> None:
    pid = placement.main_pid(vm, replica)
    assert placement.policies(vm, pid) == {f"bind:{replica}"}
    assert placement.memory(vm, pid) == {f"N{replica}"}


def in_cgroup(replica: int, script: str) -> str:
    """A shell line run as root inside a replica's control group: no file permission forbids it."""
    return f"sh -c 'echo $$ > {CGROUP.format(replica)}/cgroup.procs && {script}' 2>&1"


def test_devices_are_forbidden_by_the_control_group(vm: Machine) -> None:
    assert vm.code("head -c 1 /dev/vda >/dev/null") == 0
    assert "not permitted" in vm.on(in_cgroup(0, "head -c 1 /dev/vda"))
    assert vm.on(in_cgroup(0, "head -c 1 /dev/zero | wc -c")) == "1"


def test_network_is_forbidden_by_the_control_group(vm: Machine) -> None:
    ask = 'python3 -c "import socket; socket.create_connection((\\"{}\\", {}), 3)"'
    mirror, own = ask.format("10.77.0.1", 8780), ask.format("127.0.0.1", 22)
    assert vm.code(f"sh -c '{mirror}'") == 0
    # The kernel drops the packets: nothing says no.
    assert "TimeoutError" in vm.on(in_cgroup(0, mirror))
    assert vm.on(in_cgroup(0, own)) == ""


def test_memory_limit_is_one_on_this_kernel(vm: Machine) -> None:
    grow = "python3 -c 'bytearray(200 << 20)'"
    assert vm.code(f"systemd-run --quiet --wait -p MemoryMax=64M {grow}") != 0
    assert vm.code(f"systemd-run --quiet --wait -p MemoryMax=512M {grow}") == 0


def test_switched_on_by_hand_acs_is_found_and_switched_off_again(vm: Machine) -> None:
    port = "1a:00.0"
    control = f"setpci -s {port} ECAP_ACS+6.w"
    vm.on(f"{control}=1d")
    assert int(vm.on(control), 16) & 0xC
    checked = vm.deploy("check.py")
    assert checked.code != 0
    assert "ACS" in checked.said
    vm.on("systemctl restart b200-acs.service")
    assert not int(vm.on(control), 16) & 0xC


def test_second_run_changes_nothing(vm: Machine) -> None:
    boot = vm.boot_id()
    again = vm.deploy(data=DATA)
    assert again.code == 0, again.said
    assert again.host(vm.name)["changes"] == 0, again.said
    assert vm.boot_id() == boot
