"""Programs to run on this machine: the installed ones, or Debian's packages unpacked in the cache.

None is ever installed for the tests: the packages start services of their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.locks import apt_lock
from tests.lab.paths import lab_paths
from tests.lab.shell import run

# The package, and those of its libraries that a bare Debian 12 does not have.
_HAPROXY = ("haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1")
_PROMETHEUS = ("prometheus", "prometheus-alertmanager")
# Its templates' path is a part of the program: they are laid over this machine's, for it alone.
_WITH_TEMPLATES = """\
#!/bin/sh
exec unshare --mount --map-root-user sh -c '
mount -t overlay -o lowerdir={root}/usr/share:/usr/share overlay /usr/share
exec "$@"' alertmanager {root}/usr/bin/prometheus-alertmanager "$@"
"""


@dataclass(frozen=True)
class Program:
    """How to run it: path and environment."""

    path: str
    environment: Mapping[str, str]


def haproxy() -> Program:
    """HAProxy, fetched when this machine has none. Raises LabError when it cannot be had."""
    return program("haproxy", _HAPROXY, "usr/sbin/haproxy")


def promtool() -> Program:
    """Prometheus' own tool, which has no library to link."""
    return program("prometheus", _PROMETHEUS, "usr/bin/promtool")


def prometheus() -> Program:
    """Prometheus itself."""
    return program("prometheus", _PROMETHEUS, "usr/bin/prometheus")


def alertmanager() -> Program:
    """Alertmanager itself, with its templates where its build looks for them."""
    found = program("prometheus", _PROMETHEUS, "usr/bin/prometheus-alertmanager")
    root = Path(found.path).parents[2]
    if not root.is_relative_to(lab_paths().cache):
        return found
    started = root / "alertmanager"
    started.write_text(_WITH_TEMPLATES.format(root=root), encoding="utf-8")
    started.chmod(0o755)
    return Program(str(started), found.environment)


def amtool() -> Program:
    """Alertmanager's tool."""
    return program("prometheus", _PROMETHEUS, "usr/bin/amtool")


def node_exporter() -> Program:
    """Prometheus' exporter of a machine's own readings, which has no library to link."""
    name = "prometheus-node-exporter"
    return program(name, (name,), f"usr/bin/{name}")


def program(name: str, packages: Sequence[str], path: str) -> Program:
    """A program of packages, fetched when this machine has none. Raises LabError."""
    installed = shutil.which(Path(path).name) or shutil.which(f"/{path}")
    if installed:
        return Program(installed, os.environ)
    root = lab_paths().cache / name
    with apt_lock():  # whoever comes second finds it there
        if not (root / path).exists():
            _unpack(root, packages)
    libraries = str(root / "usr/lib/x86_64-linux-gnu")
    return Program(str(root / path), {**os.environ, "LD_LIBRARY_PATH": libraries})


def _unpack(root: Path, packages: Sequence[str]) -> None:
    building = root.with_name("haproxy.building")
    shutil.rmtree(building, ignore_errors=True)
    (building / "debs").mkdir(parents=True)
    fetch = ["apt-get", "download", "-q", *packages]
    if run(fetch, check=False, cwd=building / "debs").returncode != 0:  # lists may be absent
        run(["apt-get", "update", "-q"])
        run(fetch, cwd=building / "debs")
    for package in sorted((building / "debs").glob("*.deb")):
        run(["dpkg-deb", "-x", package, building])
    shutil.rmtree(root, ignore_errors=True)
    building.rename(root)
