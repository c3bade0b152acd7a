"""One simulated node: an overlay over the base, booted by systemd-nspawn in its own namespaces.

Host directory: ``upper/`` (its disk), ``work/``, ``root/`` (mounted), ``log`` (its console); of one
that started from a saved disk also ``layer``, the path of that.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tests.lab import cgroups, network
from tests.lab.mounts import mount_overlay, mounted_below, remove_tree, unmount_below
from tests.lab.paths import LabError, LabPaths, host_index
from tests.lab.seed import note_act, seed_disk
from tests.lab.shell import detach
from tests.lab.ssh import wait_for_ssh

# All hosts run under one user and share this limit; each uses about seven instances.
INOTIFY, INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances"), 1024

# systemd loads the IP filters of its units as BPF programs. Without these it cannot, says nothing,
# and every unit reaches every address.
_CAPABILITIES = "CAP_NET_ADMIN,CAP_BPF,CAP_SYS_ADMIN,CAP_PERFMON,CAP_SYS_RESOURCE"

# nspawn with --keep-unit exits 133 when the guest asks for a reboot: start it again then. The
# shell joins the host's control groups first, so that all it starts is born in them. A file
# "stays-off" beside the root lets the host not come back (tests/lab/node_faults.py); "warm-boot"
# tells the firmware that the power was never cut (tests/lab/firmware/lab_firmware/cures.py).
_SUPERVISOR = f"""
name=$1 machine=$2 root=$3 netns=$4; shift 4
for group in "$@"; do echo $$ > "$group/cgroup.procs" || exit 90; done
while :; do
  systemd-nspawn --quiet --directory="$root" --boot --register=no --keep-unit \
    --machine="$machine" --hostname="$name" \
    --network-namespace-path="$netns" --resolv-conf=off --timezone=off --link-journal=no \
    --capability={_CAPABILITIES} --system-call-filter=bpf --console=pipe
  code=$?
  echo "b200-lab: $name ended with $code"
  [ "$code" = 133 ] || exit "$code"
  [ ! -e "$root/../stays-off" ] || exit 0
  touch "$root/var/lib/b200-lab/warm-boot"
done
"""


def is_running(name: str) -> bool:
    """Return whether the host is alive (a frozen one is) and could reboot."""
    return cgroups.condition(name) in ("running", "frozen")


def create(
    lab: LabPaths, name: str, scenario: str, act: str = "", layer: Path | None = None
) -> None:
    """Give a host a fresh disk and boot it, whatever was left of it before.

    *act*: what was done to its simulated hardware before it boots. *layer*: a disk of
    this host and this scenario that was saved; the fresh one is then a copy of it.
    """
    remove(lab, name)
    if layer:
        lab.host(name).mkdir(parents=True)
        (lab.host(name) / "layer").write_text(str(layer), encoding="utf-8")
    _mount(lab, name)
    if not layer:
        seed_disk(lab, name, lab.host(name) / "root", scenario)
    if act:
        note_act(lab.host(name) / "root", act)
    boot(lab, name)


def boot(lab: LabPaths, name: str) -> None:
    """Boot a host that is not running from the disk it has; returns at once.

    Raises `LabError` if it is running or has no disk.
    """
    if is_running(name):
        raise LabError(f"{name} is running already")
    cgroups.destroy(name)
    if not (lab.host(name) / "upper").is_dir():
        raise LabError(f"{name} has no disk: `b200 lab up` makes it one")
    if not mounted_below(lab.host(name)):
        _mount(lab, name)
    network.ensure_host_link(name)
    groups = cgroups.create(name)
    arguments: list[str | Path] = [
        name,
        network.namespace(name),
        lab.host(name) / "root",
        network.namespace_path(name),
        *groups,
    ]
    detach(
        ["sh", "-c", _SUPERVISOR, "b200-lab-host", *arguments],
        output=lab.host(name) / "log",
        pid_file=lab.host(name) / "pid",
        env={"PATH": os.defpath + ":/usr/sbin:/sbin", "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
    )


def enter_arguments(name: str) -> list[str]:
    """Return nsenter's arguments for a host's namespaces."""
    return [f"--target={cgroups.init_pid(name)}", "-m", "-u", "-i", "-n", "-p", "-C"]


def kill(name: str) -> None:
    """Cut a host's power: every process of it is gone when this returns. Its disk stays."""
    cgroups.destroy(name)


def remove(lab: LabPaths, name: str) -> None:
    """Kill a host and take away everything it was: mounts, network, control groups, disk."""
    cgroups.destroy(name)
    unmount_below(lab.host(name))
    network.remove_host_link(name)
    remove_tree(lab.host(name))
    propagate = Path("/run/systemd/nspawn/propagate", network.namespace(name))
    if propagate.is_dir():
        unmount_below(propagate)
        propagate.rmdir()


def press_power_button(name: str) -> None:
    """Send what the button comes to: systemd's own signal for poweroff.target."""
    os.kill(cgroups.init_pid(name), signal.SIGRTMIN + 4)


def shut_down(name: str, seconds: float = 60) -> None:
    """Have a host's systemd power it off, and return when no process of it is left."""
    press_power_button(name)
    if not cgroups.wait_until(lambda: not cgroups.populated(name), seconds):
        raise LabError(f"{name} did not shut down within {seconds:.0f} s")
    cgroups.destroy(name)


def create_all(
    lab: LabPaths, scenarios: Mapping[str, str], layers: Mapping[str, Path] | None = None
) -> None:
    """Create hosts (name to scenario) side by side and wait until each answers over SSH.

    *layers*: saved disks of those that start from one.
    """
    if not scenarios:
        return
    names, saved = list(scenarios), layers or {}
    _make_room()
    with ThreadPoolExecutor(max_workers=min(8, len(names))) as pool:
        list(pool.map(lambda one: create(lab, one, scenarios[one], layer=saved.get(one)), names))
        list(pool.map(lambda name: wait_for_ssh(lab, name), names))


def _make_room(limit: Path = INOTIFY) -> None:
    """Allow as many inotify instances as the hosts of several labs use, where that can be set."""
    if int(limit.read_text(encoding="utf-8")) < INSTANCES:
        with suppress(OSError):
            limit.write_text(f"{INSTANCES}\n", encoding="utf-8")


def remove_all(lab: LabPaths) -> list[str]:
    """Remove every host there is any trace of and return their names."""
    on_disk = [path.name for path in lab.hosts.iterdir()] if lab.hosts.is_dir() else []
    traces = {*on_disk, *cgroups.present(), *network.leftovers()}
    names = sorted(traces, key=host_index)
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda name: remove(lab, name), names))
    cgroups.destroy_root()
    return names


def _mount(lab: LabPaths, name: str) -> None:
    """Mount a host's root: its disk over the one it started from, if any, over the base."""
    host = lab.host(name)
    layer = host / "layer"
    saved = [Path(layer.read_text(encoding="utf-8"))] if layer.exists() else []
    mount_overlay([*saved, lab.base], host / "upper", host / "work", host / "root")
