"""A stand-in for Ubuntu's own archive: packages of the driver that must never get onto a node.

Their versions have the shape Ubuntu gives them (580.159.03-0ubuntu0.24.04.1) and are newer than the
vendor's, so apt prefers them where nothing keeps them out. What they do is what the vendor's do:
the fabric manager refuses a driver of another version. Suites are as in Ubuntu: unattended-upgrades
takes what the first and -security have, and -updates has phased ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.lab.mounts import remove_tree
from tests.lab.paths import LabPaths, mirror_url
from tests.lab.supply import deb
from tests.lab.supply.aptrepo import publish_suites
from tests.lab.supply.deb import Package
from tests.lab.supply.gpg import signing_key
from tests.lab.supply.packages import from_tree, marker_library
from tests.lab.supply.repositories import KEY, serve
from tests.lab.supply.systems import System, system_of

ORIGIN = "Ubuntu"
COMPONENT = "restricted"
NEWER, SAME = "599.10.01-0ubuntu0.24.04.1", "580.126.20-0ubuntu0.24.04.1"
SUFFIXED = "580.159.03-0ubuntu0.24.04.1"
# Ubuntu's names of a driver that comes as signed modules (packages.ubuntu.com/noble).
SERVER = (
    "nvidia-driver-580-server-open", "nvidia-headless-580-server-open", "nvidia-utils-580-server",
    "nvidia-kernel-common-580-server", "libnvidia-compute-580-server",
    "linux-modules-nvidia-580-server-open-generic",
)  # fmt: skip
_KEYRING = "usr/share/keyrings/ubuntu-archive-keyring.asc"


def suites(system: System) -> Mapping[str, list[Package]]:
    """A newer set, the same version built by Ubuntu, and Ubuntu's own names of another patch."""
    codename = system.codename
    manager = "fabric manager for NVSwitch systems"
    suffixed = from_tree("nvidia-fabricmanager", SUFFIXED, manager)
    rivals = dict.fromkeys(("Conflicts", "Replaces"), "nvidia-fabricmanager")
    phased = {"Phased-Update-Percentage": "50"}
    return {
        codename: [from_tree("nvidia-fabricmanager", SAME, manager)],
        f"{codename}-updates": [
            Package(name, SUFFIXED, "driver of the archive", relations=phased) for name in SERVER
        ],
        f"{codename}-security": [
            from_tree("nvidia-fabricmanager", NEWER, manager),
            replace(suffixed, name="nvidia-fabricmanager-580", relations=rivals),
            marker_library("libnvidia-nscq", NEWER, "libnvidia-nscq.so.599.10.01", "switches"),
            from_tree("nvidia-persistenced", NEWER, "persistence daemon"),
        ],
    }


def add(lab: LabPaths, root: Path) -> None:
    """Make the archive one of the repositories that the disk at *root* was born with."""
    keyring = root / _KEYRING
    keyring.parent.mkdir(parents=True, exist_ok=True)
    keyring.write_text(lab.mirror_key.read_text(encoding="utf-8"), encoding="utf-8")
    names = " ".join(suites(system_of(lab)))
    source = f"Types: deb\nURIs: {mirror_url()}/apt/archive/\nSuites: {names}\n"
    source += f"Components: {COMPONENT}\nSigned-By: /{_KEYRING}\n"
    (root / "etc/apt/sources.list.d/ubuntu.sources").write_text(source, encoding="utf-8")


def publish(lab: LabPaths) -> None:
    """Serve the archive from this lab's mirror."""
    pool, repository = lab.own / "archive", lab.own / "apt" / "archive"
    remove_tree(pool)
    built = {}
    for suite, packages in suites(system_of(lab)).items():
        (pool / suite).mkdir(parents=True)
        built[suite] = [deb.build(package, pool / suite) for package in packages]
    with signing_key(lab.gnupg, KEY) as key:
        publish_suites(repository, built, COMPONENT, key, ORIGIN)
    serve(lab, "archive", repository)
