"""Faults of one node's packages, kernel and boot while a run is at work. Each can be undone.

What a package's script does under a fault is in the stand-in's own postinst
(tests/lab/vendor/nvidia-kernel-open-dkms); here are the switches.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.lab.lab import known, power_on
from tests.lab.lab import run as run_in_host
from tests.lab.paths import LabError
from tests.lab.seed import write_keys
from tests.lab.state import lab_lock
from tests.lab.supply import archive, deb, kernels
from tests.lab.supply.packages import fabric_manager

FAULTS = "/etc/b200-lab/faults"
LOCKER = "b200-lab-locker.service"
COMPILER_SAYS = "nv-mmap.c:371:13: error: implicit declaration of function 'vm_flags_set'"
_LOCK = (
    "import fcntl, time; lock = open('/var/lib/dpkg/lock-frontend', 'w'); "
    "fcntl.lockf(lock, fcntl.LOCK_EX); time.sleep(86400)"
)
_NEW_KEY = "b200-lab-new-key.service"
_KEY = "/etc/ssh/ssh_host_ed25519_key"
_NEW_KEY_UNIT = f"""\
[Unit]
Before=ssh.service
[Service]
Type=oneshot
ExecStart=/bin/rm -f {_KEY} {_KEY}.pub
ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N "" -f {_KEY}
"""
# dpkg and all that works for it, but not the shell of the deploy's own script, nor apt.
_KILL_DPKG = (
    "for p in /proc/[0-9]*; do read -r name <$p/comm || continue; "
    'case "$name" in dpkg|*.postinst) kill -9 ${p#/proc/};; esac; done 2>/dev/null; true'
)


def dkms_fails(name: str) -> None:
    """Let the nvidia module fail to build, as with a kernel that is too new for it."""
    _set(name, "dkms-fails", f"{COMPILER_SAYS}\n")


def dkms_builds(name: str) -> None:
    """Let it build again; a build that hangs goes on."""
    done = run_in_host(name, ["rm", "-f", f"{FAULTS}/dkms-fails", f"{FAULTS}/dkms-hangs"])
    _ok(name, done.returncode, done.stderr)


def dkms_hangs(name: str) -> None:
    """Let the nvidia module's build never end."""
    _set(name, "dkms-hangs")


def kill_dpkg_in_build(name: str, seconds: float = 120) -> None:
    """Wait until a hanging build has begun, then kill dpkg and its scripts with SIGKILL."""
    hanging = f"until [ -e {FAULTS}/dkms-is-hanging ]; do sleep 0.05; done"
    _ok(name, run_in_host(name, ["sh", "-c", hanging], timeout=seconds).returncode, "no build")
    _ok(name, run_in_host(name, ["sh", "-c", _KILL_DPKG]).returncode, "dpkg was not killed")


def large_initramfs(name: str, megabytes: int) -> None:
    """Let the next initramfs be of this size."""
    _set(name, "initramfs-mb", f"{megabytes}\n")


def hold_dpkg_lock(name: str) -> None:
    """Let a process of the host hold dpkg's lock, as an unattended upgrade does."""
    start = ["systemd-run", "--quiet", f"--unit={LOCKER}", "python3", "-c", _LOCK]
    done = run_in_host(name, start)
    _ok(name, done.returncode, done.stderr)
    held = "until grep -q POSIX /proc/locks && systemctl -q is-active $0; do sleep 0.05; done"
    _ok(name, run_in_host(name, ["sh", "-c", held, LOCKER], timeout=30).returncode, "no lock")


def release_dpkg_lock(name: str) -> None:
    """End that process."""
    done = run_in_host(name, ["systemctl", "stop", LOCKER])
    _ok(name, done.returncode, done.stderr)


def stays_off(name: str) -> None:
    """Let the host not come back from its next reboot."""
    (known(name).host(name) / "stays-off").touch()


def comes_back(name: str, seconds: float = 300) -> None:
    """Power such a host on again, and wait until it answers."""
    marker = known(name).host(name) / "stays-off"
    marker.unlink(missing_ok=True)
    end = time.monotonic() + seconds
    while True:
        try:
            power_on(name)
            return
        except LabError:  # it is still on its way down
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def other_key_after_reboot(name: str) -> None:
    """Let sshd have another host key from the next boot on, as an image that makes its own does."""
    root = _root(name)
    (root / f"etc/systemd/system/{_NEW_KEY}").write_text(_NEW_KEY_UNIT, encoding="utf-8")
    link = root / f"etc/systemd/system/multi-user.target.wants/{_NEW_KEY}"
    link.symlink_to(f"/etc/systemd/system/{_NEW_KEY}")


def pinned_key_again(name: str) -> None:
    """Give a host its pinned key back."""
    root = _root(name)
    for path in (root / "etc/systemd/system").rglob(_NEW_KEY):
        path.unlink()
    write_keys(known(name), root, name)
    done = run_in_host(name, ["systemctl", "restart", "ssh.service"])
    _ok(name, done.returncode, done.stderr)


def boots_old_kernel(name: str) -> None:
    """Put a newer kernel on the disk that GRUB's menu names first and the host does not boot.

    Only the newer one has headers, so the driver is built for it alone.
    """
    root = _root(name)
    kernels.install_kernel(root, kernels.NEWER)
    _remove_headers(root)


def boots_right_kernel(name: str) -> None:
    """Take the newer kernel away and give the running one its headers back."""
    root = _root(name)
    kernels.remove_kernel(root, kernels.NEWER)
    kernels.install_kernel(root, kernels.running())


def add_archive(name: str) -> None:
    """Have a host know Ubuntu's archive, as one of the repositories it was born with."""
    lab = known(name)
    with lab_lock(lab):
        archive.publish(lab)
    archive.add(lab, _root(name))


def older_fabric_manager(name: str, driver: str) -> str:
    """Put a fabric manager's .deb of another driver version onto a host; return its path there."""
    return f"/root/{deb.build(fabric_manager(driver), _root(name) / 'root').name}"


def rebuild_module(name: str) -> None:
    """What `dkms autoinstall` does: build the installed driver's module for every kernel."""
    script = "/var/lib/dpkg/info/nvidia-kernel-open-dkms.postinst"
    done = run_in_host(name, ["sh", "-c", f"{script} configure"])
    _ok(name, done.returncode, done.stderr)


def without_headers(name: str) -> None:
    """Take the running kernel's headers away: DKMS skips it then, without an error."""
    _remove_headers(_root(name))


def _remove_headers(root: Path) -> None:
    headers = root / "lib/modules" / kernels.running() / "build"
    if headers.is_dir():
        headers.rmdir()


def _root(name: str) -> Path:
    return known(name).host(name) / "root"


def _set(name: str, fault: str, content: str = "") -> None:
    script = f'mkdir -p {FAULTS} && printf %s "$0" > {FAULTS}/{fault}'
    done = run_in_host(name, ["sh", "-c", script, content])
    _ok(name, done.returncode, done.stderr)


def _ok(name: str, code: int, said: str) -> None:
    if code != 0:
        raise LabError(f"{name}: the fault was not made: {said.strip()}")
