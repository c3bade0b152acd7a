"""Run programs of this machine, and say in one line what went wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab.locks import apt_lock
from tests.lab.paths import LabError

Progress = Callable[[str], None]

#: How long apt waits for somebody else's dpkg, such as an unattended upgrade.
DPKG_LOCK_S = 600
#: What takes longer on a machine with two busy cores and three labs does not end at all.
HUNG_S = 900

# Program that proves a Debian package is installed -> that package.
HOST_PROGRAMS: Mapping[str, str] = {
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "iptables": "iptables",
    "apt-ftparchive": "apt-utils",
    "dpkg-deb": "dpkg",
    "gpg": "gnupg",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "nsenter": "util-linux",
    "gcc": "gcc",
    "skopeo": "skopeo",
    "openssl": "openssl",
}
# Packages without a program of their own that a missing header or archive shows.
HOST_FILES: Mapping[str, str] = {
    "/usr/include/stdio.h": "libc6-dev",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}


def run(
    argv: Sequence[str | Path],
    *,
    check: bool = True,
    timeout: float = HUNG_S,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return it with its output as text.

    ``timeout`` is in seconds; ``env`` adds to the environment. Raises `LabError` naming the
    program and its last line of error output if it fails (unless ``check`` is false), is not
    there, or takes too long.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
    except FileNotFoundError as error:
        raise LabError(f"{words[0]} is not installed on this machine ({error})") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{words[0]} did not end within {timeout:.0f} s") from error
    if check and done.returncode != 0:
        raise LabError(f"{' '.join(words[:3])} failed ({done.returncode}): {last_line(done)}")
    return done


# The new process tells its own id, then becomes the program.
_TELL = 'echo $$ > "$0.new" && mv "$0.new" "$0" && exec "$@"'


def detach(
    argv: Sequence[str | Path], output: Path, pid_file: Path, env: Mapping[str, str] | None = None
) -> int:
    """Start a program that outlives this process, in a session of its own; returns its process id.

    It is nobody's child, so whoever starts it has nothing to wait for. *output* is appended to;
    *env*, when given, is the whole environment.
    """
    pid_file.unlink(missing_ok=True)
    with open(output, "ab") as out:
        subprocess.run(
            ["setsid", "--fork", "sh", "-c", _TELL, str(pid_file), *map(str, argv)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", env=env, check=True,
        )  # fmt: skip
    end = time.monotonic() + 10
    while not pid_file.exists():
        if time.monotonic() > end:
            raise LabError(f"{argv[0]} did not start; see {output}")
        time.sleep(0.01)
    return int(pid_file.read_text(encoding="utf-8"))


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last non-empty line a program wrote, standard error first."""
    for text in (done.stderr, done.stdout):
        lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
        if lines:
            return lines[-1]
    return "it wrote nothing"


def ensure_root() -> None:
    """Raise `LabError` unless running as root."""
    if os.geteuid() != 0:
        raise LabError("the lab boots machines and needs root: run it again with sudo")


def missing_host_packages(
    programs: Mapping[str, str] = HOST_PROGRAMS, files: Mapping[str, str] = HOST_FILES
) -> list[str]:
    """Return the Debian packages the lab needs and this machine is missing, sorted."""
    missing = {
        package
        for program, package in programs.items()
        if shutil.which(program) is None and not Path("/usr/sbin", program).exists()
    }
    missing |= {package for path, package in files.items() if not Path(path).exists()}
    return sorted(missing)


def ensure_host_packages(
    progress: Progress,
    programs: Mapping[str, str] = HOST_PROGRAMS,
    files: Mapping[str, str] = HOST_FILES,
) -> None:
    """Install what the lab needs on this machine, if anything is missing (Debian only)."""
    missing = missing_host_packages(programs, files)
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise LabError(f"the lab needs {', '.join(missing)} and this machine has no apt-get")
    with apt_lock():
        _install(missing_host_packages(programs, files), progress)
    still = missing_host_packages(programs, files)
    if still:
        raise LabError(f"after installing them, {', '.join(still)} are still missing")


def _install(missing: Sequence[str], progress: Progress) -> None:
    """Install packages on this machine; the caller holds `apt_lock`, under which some came."""
    if not missing:
        return
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-q", f"--option=DPkg::Lock::Timeout={DPKG_LOCK_S}"]
    install = [*apt, "install", "-y", "--no-install-recommends", *missing]
    with timed(progress, f"installing {' '.join(missing)} on this machine"):
        if run(install, env=quiet, check=False).returncode != 0:  # lists may be old or absent
            run([*apt, "update"], env=quiet)
            run(install, env=quiet)


@contextmanager
def timed(progress: Progress, what: str) -> Iterator[None]:
    """Report a step when it starts and how long it took when it is done."""
    progress(f"{what} ...")
    started = time.monotonic()
    yield
    progress(f"{what}: done in {time.monotonic() - started:.1f} s")
