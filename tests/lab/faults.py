"""Faults of a site, not of a node: repositories, network, disks, host keys. Each can be undone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from tests.lab import network
from tests.lab.lab import known
from tests.lab.lab import run as run_in_host
from tests.lab.locks import shared_lock
from tests.lab.paths import BRIDGE_ADDRESS, MIRROR_PORT, LabError, lab_paths
from tests.lab.shell import run
from tests.lab.state import lab_lock
from tests.lab.supply import repositories
from tests.lab.supply.packages import VERSIONS


def publish_vendor(
    versions: Sequence[str] | None = None,
    leave_out: Collection[str] = (),
    key: str = repositories.KEY,
) -> None:
    """Publish the vendor's repository again; without arguments, as it should be.

    ``leave_out`` keeps packages out (``name`` or ``name=version``); ``key="other"`` signs with a
    key that no node trusts, ``key="sha1"`` with one that is bound by SHA-1.
    """
    lab = lab_paths()
    with lab_lock(lab), shared_lock(lab.root):
        repositories.publish_vendor(lab, tuple(versions or VERSIONS), leave_out, key)


def block_mirror(name: str) -> None:
    """Take away one host's route to the mirror; SSH goes on."""
    known(name)
    if not _mirror_blocked(name):
        _iptables(name, "-A", check=True)


def unblock_mirror(name: str) -> None:
    """Give a host its route to the mirror back."""
    known(name)
    while _mirror_blocked(name):
        _iptables(name, "-D", check=True)


def unplug(name: str) -> None:
    """Pull a host's network cable: its processes go on, nobody reaches it."""
    known(name)
    network.set_link(name, up=False)


def plug(name: str) -> None:
    """Plug a host's network cable in again."""
    known(name)
    network.set_link(name, up=True)


def small_disk(name: str, path: str, megabytes: int) -> None:
    """Lay an empty file system of a given size over a directory of a host, at every boot."""
    entry = f"lab-small-disk {path} tmpfs size={megabytes}m,mode=0755 0 0"
    script = 'mkdir -p "$1" && echo "$2" >> /etc/fstab && mount "$1"'
    done = run_in_host(name, ["sh", "-c", script, "sh", path, entry])
    if done.returncode != 0:
        raise LabError(f"{name}: no small disk at {path}: {done.stderr.strip()}")


def large_disk(name: str, path: str) -> None:
    """Take a `small_disk` away again, with what was written to it."""
    script = 'umount "$1" && sed -i "\\|^lab-small-disk $1 |d" /etc/fstab'
    done = run_in_host(name, ["sh", "-c", script, "sh", path])
    if done.returncode != 0:
        raise LabError(f"{name}: {path}: {done.stderr.strip()}")


def new_host_key(name: str) -> str:
    """Give a running host another SSH host key, as a re-imaged machine has; return it.

    The lab's known_hosts keeps the old one: whoever pins it must now refuse the host.
    """
    lab = known(name)
    key = lab.host(name) / "root/etc/ssh/ssh_host_ed25519_key"
    for path in (key, key.with_suffix(".pub")):
        path.unlink()
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "b200-lab-new", "-f", key])
    run_in_host(name, ["systemctl", "restart", "ssh.service"])
    return " ".join(Path(f"{key}.pub").read_text(encoding="utf-8").split()[:2])


def _mirror_blocked(name: str) -> bool:
    return _iptables(name, "-C", check=False) == 0


def _iptables(name: str, action: str, check: bool) -> int:
    """Append, check or delete the one rule that hides the mirror, in the host's own namespace."""
    rule = ["OUTPUT", "-d", BRIDGE_ADDRESS, "-p", "tcp", "--dport", str(MIRROR_PORT)]
    rule += ["-j", "REJECT", "--reject-with", "icmp-net-unreachable"]
    inside = ["ip", "netns", "exec", network.namespace(name)]
    return run([*inside, "iptables", action, *rule], check=check).returncode
