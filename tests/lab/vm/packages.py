"""The Debian packages the virtual machine may install: the hosts' own, and a compiler's worth.

A repository of its own, so that the containers, which share this machine's kernel and can load no
module, do not pay for headers and compilers.
"""

from __future__ import annotations

import re

from tests.lab.paths import LabError, LabPaths
from tests.lab.shell import Progress
from tests.lab.supply.debian_mirror import PACKAGES, Pool
from tests.lab.supply.repositories import publish_debian
from tests.lab.supply.systems import system_of
from tests.lab.vm import recipe
from tests.lab.vm.image import directory, dpkg_status

REPOSITORY = "debian-vm"
BUILDING = ("dkms", "linux-headers-amd64")
_KERNEL = re.compile(r"^Package: linux-image-(\d\S*)$", re.MULTILINE)


def kernel_release(status: str) -> str:
    """Return the newest kernel's release ("6.1.0-1-amd64") from dpkg's status file."""
    found = _KERNEL.findall(status)
    if not found:
        raise LabError("the virtual machine's image has no kernel package")
    return str(max(found, key=lambda name: [int(part) for part in re.findall(r"\d+", name)]))


def ensure_packages(lab: LabPaths, progress: Progress) -> None:
    """Fetch and publish the machine's Debian repository unless it is there. Needs the image."""
    status = dpkg_status(lab)
    release = kernel_release(status.read_text(encoding="utf-8"))
    packages = tuple(sorted({*PACKAGES, *BUILDING, f"linux-headers-{release}"}))
    extended = directory(lab) / "extended_states"
    system = system_of(lab)
    pool = Pool(REPOSITORY, packages, system, recipe.stamp(system), status, extended)
    publish_debian(lab, pool, progress)


def repository_url(mirror: str) -> str:
    """Where the machine finds its Debian packages."""
    return f"{mirror}/apt/{REPOSITORY}/"
