"""An HAProxy to run on this machine: the installed one, or Debian's package unpacked in the cache.

It is never installed for the tests: the package starts a service of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab.locks import apt_lock
from tests.lab.paths import lab_paths
from tests.lab.shell import run

# The package, and those of its libraries that a bare Debian 12 does not have.
_PACKAGES = ("haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1")


@dataclass(frozen=True)
class Program:
    """How to run it: path and environment."""

    path: str
    environment: Mapping[str, str]


def haproxy() -> Program:
    """HAProxy, fetched when this machine has none. Raises LabError when it cannot be had."""
    installed = shutil.which("haproxy") or shutil.which("/usr/sbin/haproxy")
    if installed:
        return Program(installed, os.environ)
    root = lab_paths().cache / "haproxy"
    with apt_lock():  # whoever comes second finds it there
        if not (root / "usr/sbin/haproxy").exists():
            _unpack(root)
    libraries = str(root / "usr/lib/x86_64-linux-gnu")
    return Program(str(root / "usr/sbin/haproxy"), {**os.environ, "LD_LIBRARY_PATH": libraries})


def _unpack(root: Path) -> None:
    building = root.with_name("haproxy.building")
    shutil.rmtree(building, ignore_errors=True)
    (building / "debs").mkdir(parents=True)
    fetch = ["apt-get", "download", "-q", *_PACKAGES]
    if run(fetch, check=False, cwd=building / "debs").returncode != 0:  # lists may be absent
        run(["apt-get", "update", "-q"])
        run(fetch, cwd=building / "debs")
    for package in sorted((building / "debs").glob("*.deb")):
        run(["dpkg-deb", "-x", package, building])
    shutil.rmtree(root, ignore_errors=True)
    building.rename(root)
