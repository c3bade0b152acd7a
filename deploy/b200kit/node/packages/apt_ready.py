"""Before an installation: wait for dpkg's locks, finish what an earlier one left, look at the room.

Lines that begin with "b200kit: " are for a person; the rest is apt's and dpkg's own and goes into
the log. Why an installation failed is found by b200kit/node/packages/failure.py.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Collection

from b200kit.node.facts import dpkg, system
from b200kit.node.facts.dpkg_state import VENDOR
from b200kit.node.lib import apt_output, documents, installed

POLL_S = 1.0
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
INSTALL = ("--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages")
ARCHIVES, PROGRAMS = "/var/cache/apt/archives", "/usr"


class NotReady(Exception):
    """Why packages cannot be installed now, in one line."""


def call(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a tool without a question; its output, both streams as one."""
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **ENVIRONMENT},
        check=False,
    )


def await_locks(seconds: float) -> None:
    """Return when nobody holds a lock of apt or dpkg; NotReady names who still does at the end."""
    end = time.monotonic() + seconds
    while (held := dpkg.holder()) is not None:
        if time.monotonic() >= end:
            raise NotReady(
                f"{held} holds the lock of dpkg, for {seconds:.0f} s and longer; "
                "wait for it or end it, then run again"
            )
        time.sleep(POLL_S)


def finish(ours: Collection[str]) -> None:
    """Configure what an interrupted dpkg left; NotReady when it is not ours and cannot be.

    What is ours alone is left to the installation that follows, so that a module is not built
    twice; it may also bring another version.
    """
    if not dpkg.interrupted() and all(is_ours(name, ours) for name in unfinished()):
        return
    done = call(["dpkg", "--force-confold", "--configure", "-a"])
    print(done.stdout, flush=True)
    foreign = {name: state for name, state in unfinished().items() if not is_ours(name, ours)}
    if foreign:
        named = ", ".join(f"{name} ({state})" for name, state in foreign.items())
        found = apt_output.unconfigured(done.stdout.splitlines())
        raise NotReady(
            f"not fully installed and not b200kit's: {named}"
            + (f": {found[1]}" if found and found[0] in foreign else "")
            + "; repair or purge it, then run again"
        )


def unfinished() -> dict[str, str]:
    """Packages that are not fully installed now."""
    return dpkg.broken(system.listing())


def is_ours(name: str, ours: Collection[str]) -> bool:
    """Whether b200kit may repair a package: one it asks for, or the vendor's."""
    return name in ours or bool(VENDOR.search(name))


def mend_dependencies(ours: Collection[str]) -> None:
    """`apt-get -f install` where dependencies are broken, unless it removes what is not ours."""
    if call(["apt-get", "check"]).returncode == 0:
        return
    plan = call(["apt-get", "-s", "-f", "install", *INSTALL])
    steps = apt_output.steps(plan.stdout.splitlines())
    foreign = sorted(name for name in steps["Remv"] if not is_ours(name, ours))
    if plan.returncode != 0 or foreign:
        named = f"would remove {', '.join(foreign)}" if foreign else "finds no way"
        raise NotReady(
            f"dependencies are broken and `apt-get -f install` {named}; repair them by hand"
        )
    done = call(["apt-get", "-y", "-f", "install", *INSTALL])
    print(done.stdout, flush=True)


def look_at_room(packages: list[str]) -> None:
    """NotReady when apt would need more room than there is, before it unpacks anything."""
    # --assume-no alone installs what needs no question: packages that bring no others.
    words = ["apt-get", "install", "--assume-no", "--download-only", *INSTALL, *packages]
    output = call(words).stdout
    download, installed = apt_output.sizes(output.splitlines())
    for need, path in needs(download, installed):
        free = room(path)[1]
        if need > free:
            raise NotReady(
                f"no disk space: the packages need {megabytes(need)} on the file system of {path}, "
                f"{megabytes(free)} are free; nothing was installed"
            )


def note(packages: list[str]) -> None:
    """Note what the installation will bring, so that it can be removed."""
    plan = call(["apt-get", "-s", "install", *INSTALL, *packages])
    installed.note_packages(packages, apt_output.new(plan.stdout.splitlines()))


def needs(download: int, installed: int) -> list[tuple[int, str]]:
    """Bytes needed by path; both at one place where they are on one file system."""
    if os.stat(nearest(ARCHIVES)).st_dev == os.stat(nearest(PROGRAMS)).st_dev:
        return [(download + installed, PROGRAMS)]
    return [(download, ARCHIVES), (installed, PROGRAMS)]


def nearest(path: str) -> str:
    """The path, or its nearest parent that exists."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def room(path: str) -> tuple[int, int]:
    """Bytes in all and free of a path's file system, for root."""
    observed = os.statvfs(nearest(path))
    return observed.f_blocks * observed.f_frsize, observed.f_bfree * observed.f_frsize


def megabytes(size: int) -> str:
    """A size as a person reads it."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _refuse(error: Exception) -> int:
    print(f"{apt_output.PREFIX}{error}", file=sys.stderr, flush=True)
    return 1


def ready(args: list[str]) -> int:
    """Command apt-ready: locks free and nothing left unfinished by another; 1 with the reason."""
    parser = argparse.ArgumentParser(prog="apt-ready")
    parser.add_argument("--wait", type=float, default=300.0)
    parser.add_argument("--ours", default="")
    options = parser.parse_args(args)
    try:
        await_locks(options.wait)
        finish(options.ours.split(","))
    except (NotReady, OSError) as error:
        return _refuse(error)
    return 0


def check(args: list[str]) -> int:
    """Command apt-check: dependencies whole, room for the packages; 1 with the reason.

    What they bring is noted.
    """
    parser = argparse.ArgumentParser(prog="apt-check")
    parser.add_argument("--ours", default="")
    parser.add_argument("packages", nargs="*")
    options = parser.parse_args(args)
    try:
        mend_dependencies(options.ours.split(","))
        look_at_room(options.packages)
        note(options.packages)
    except (NotReady, OSError, documents.Malformed) as error:
        return _refuse(error)
    return 0
