"""A stand-in for Ubuntu's own archive: packages of the driver that must never get onto a node.

Their versions have the shape Ubuntu gives them (580.159.03-0ubuntu0.24.04.1) and are newer than the
vendor's, so apt prefers them where nothing keeps them out. What they do is what the vendor's do:
the fabric manager refuses a driver of another version.
"""

from __future__ import annotations

from dataclasses import replace

from tests.lab.lab import known
from tests.lab.mounts import remove_tree
from tests.lab.paths import LabPaths, mirror_url
from tests.lab.state import lab_lock
from tests.lab.supply import deb
from tests.lab.supply.aptrepo import publish
from tests.lab.supply.deb import Package
from tests.lab.supply.gpg import signing_key
from tests.lab.supply.packages import fabric_manager, from_tree, marker_library
from tests.lab.supply.repositories import KEY, serve

ORIGIN = "Ubuntu"
NEWER, SAME = "599.10.01-0ubuntu0.24.04.1", "580.126.20-0ubuntu0.24.04.1"
SUFFIXED = "580.159.03-0ubuntu0.24.04.1"


def packages() -> list[Package]:
    """A newer set, the same version built by Ubuntu, and Ubuntu's own name for it."""
    manager = "fabric manager for NVSwitch systems"
    suffixed = from_tree("nvidia-fabricmanager", SUFFIXED, manager)
    rivals = dict.fromkeys(("Conflicts", "Replaces"), "nvidia-fabricmanager")
    return [
        from_tree("nvidia-fabricmanager", NEWER, manager),
        from_tree("nvidia-fabricmanager", SAME, manager),
        replace(suffixed, name="nvidia-fabricmanager-580", relations=rivals),
        marker_library("libnvidia-nscq", NEWER, "libnvidia-nscq.so.599.10.01", "NVSwitch library"),
        from_tree("nvidia-persistenced", NEWER, "persistence daemon"),
    ]


def add_archive(name: str) -> None:
    """Publish the archive and make it one of the repositories a host was born with."""
    lab = known(name)
    with lab_lock(lab):
        _publish(lab)
    etc = lab.host(name) / "root/etc/apt"
    key = etc / "trusted-ubuntu.asc"
    key.write_text(lab.mirror_key.read_text(encoding="utf-8"), encoding="utf-8")
    source = f"Types: deb\nURIs: {mirror_url()}/apt/archive/\nSuites: ./\n"
    source += f"Signed-By: /etc/apt/{key.name}\n"
    (etc / "sources.list.d/ubuntu.sources").write_text(source, encoding="utf-8")


def older_fabric_manager(name: str, driver: str) -> str:
    """Put a fabric manager's .deb of another driver version onto a host; return its path there."""
    lab = known(name)
    package = fabric_manager(driver)
    built = deb.build(package, lab.host(name) / "root/root")
    return f"/root/{built.name}"


def _publish(lab: LabPaths) -> None:
    pool, repository = lab.own / "archive", lab.own / "apt" / "archive"
    remove_tree(pool)
    pool.mkdir(parents=True)
    debs = [deb.build(package, pool) for package in packages()]
    with signing_key(lab.gnupg, KEY) as key:
        publish(repository, debs, key, ORIGIN)
    serve(lab, "archive", repository)
