"""What the hosts are served: repositories, wheels, a model, and the mirror that serves them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from tests.lab import ssh
from tests.lab.locks import shared_lock
from tests.lab.own_network import outside
from tests.lab.paths import BRIDGE_ADDRESS, MODEL_NAME, LabPaths, mirror_url
from tests.lab.rootfs import ensure_base
from tests.lab.shell import Progress, ensure_host_packages
from tests.lab.supply import archive, given_rootfs
from tests.lab.supply.engine import check_engine, ensure_engine, publish_stand_in
from tests.lab.supply.mirror_process import ensure_api_key, ensure_token, start_mirror, stop_mirror
from tests.lab.supply.models import ensure_model
from tests.lab.supply.repositories import ensure_repositories, ensure_vendor
from tests.lab.supply.systems import choose, system_of


def prepare(
    lab: LabPaths, engine: str, progress: Progress, system: str | None = None
) -> dict[str, Any]:
    """Have everything that labs share, and what this one serves; returns `ensure_services`'.

    Where two labs begin at once, one makes it and the other waits.
    """
    check_engine(choose(lab, system, given_rootfs.named()), engine)
    with shared_lock(lab.root), outside():
        ensure_host_packages(progress)
        ssh.ensure_keys(lab)
        ensure_base(lab, progress)
        return ensure_services(lab, engine, progress)


def ensure_services(lab: LabPaths, engine: str, progress: Progress) -> dict[str, Any]:
    """Make everything that the mirror serves and return ``lab.json`` but for the hosts.

    The caller holds the lock of what labs share.
    """
    lab.cache.mkdir(parents=True, exist_ok=True)
    repositories = ensure_repositories(lab, progress)
    if system_of(lab).shape:
        archive.publish(lab)
    chosen = ensure_engine(lab, engine, progress)
    revision = ensure_model(lab, with_tokenizer=not chosen["stand_in"], progress=progress)
    ensure_api_key(lab)
    token = ensure_token(lab)
    _publish(lab)
    return {
        "os": system_of(lab).name,
        "bridge": BRIDGE_ADDRESS,
        "ssh_key": str(lab.ssh_key),
        "known_hosts": str(lab.known_hosts),
        "mirror": {"url": mirror_url(), **repositories, "token": token},
        "engine": chosen,
        "model": {"name": MODEL_NAME, "revision": revision},
    }


def _publish(lab: LabPaths) -> None:
    """Make this lab's document root of what labs share, and of its own stand-in engine."""
    ensure_vendor(lab)
    wheels = lab.documents / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    for shared in (lab.mirror / "wheels").glob("*"):
        _link(shared, wheels / shared.name)
    publish_stand_in(lab)
    models = lab.documents / "models"
    if not models.is_symlink():
        models.symlink_to(lab.mirror / "models")


def _link(source: Path, target: Path) -> None:
    """Have another name for a file where possible, else a copy of it."""
    if target.exists() and target.samefile(source):
        return
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def start_services(lab: LabPaths) -> None:
    """Start the mirror; the bridge is there."""
    start_mirror(lab)


def stop_services(lab: LabPaths) -> None:
    """Stop the mirror."""
    stop_mirror(lab)
