"""Shell lines that do a serving node harm, and those that undo it."""

from __future__ import annotations

_CGROUP = "/sys/fs/cgroup/system.slice/system-vllm.slice"


def on_every_cpu(unit: str) -> str:
    """The processes of a unit may run on every CPU, as after a binding that took no hold."""
    return _bound(unit, f"0-{_LAST}")


def on_its_cpus(unit: str) -> str:
    """They are bound again as the unit says."""
    return _bound(unit, f"$(systemctl show -P CPUAffinity {unit})")


def _bound(unit: str, cpus: str) -> str:
    each = f"for p in $(cat {_CGROUP}/{unit}/cgroup.procs); do taskset -acp {cpus} $p; done"
    return f"{each} >/dev/null"


_LAST = "$(( $(nproc --all) - 1 ))"
FULL_VAR = (
    "mkdir -p /run/small && mount -t tmpfs -o size=8m small /run/small"
    " && mkdir /run/small/new /run/small/work && mount -t overlay"
    " -o lowerdir=/var,upperdir=/run/small/new,workdir=/run/small/work small /var"
    "; dd if=/dev/zero of=/var/everything bs=64k 2>/dev/null; df /var | tail -1"
)
"""/var becomes a file system of eight MiB, all of them used: what it had can be read."""
ROOM_IN_VAR = "umount -l /var && umount -l /run/small"
