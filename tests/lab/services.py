"""What the hosts are served: repositories, wheels, a model, and the mirror that hands them out."""

from __future__ import annotations

from typing import Any

from tests.lab.engine import ensure_engine
from tests.lab.mirror_process import ensure_api_key, ensure_token, start_mirror, stop_mirror
from tests.lab.models import ensure_model
from tests.lab.paths import BRIDGE_ADDRESS, MODEL_NAME, LabPaths, mirror_url
from tests.lab.repositories import ensure_repositories
from tests.lab.shell import Progress


def ensure_services(lab: LabPaths, engine: str, progress: Progress) -> dict[str, Any]:
    """Make and publish everything, start the mirror, and return ``lab.json`` but for the hosts."""
    lab.cache.mkdir(parents=True, exist_ok=True)
    repositories = ensure_repositories(lab, progress)
    chosen = ensure_engine(lab, engine, progress)
    revision = ensure_model(lab, with_tokenizer=not chosen["stand_in"], progress=progress)
    ensure_api_key(lab)
    start_mirror(lab)
    return {
        "bridge": BRIDGE_ADDRESS,
        "ssh_key": str(lab.ssh_key),
        "known_hosts": str(lab.known_hosts),
        "mirror": {"url": mirror_url(), **repositories, "token": ensure_token(lab)},
        "engine": chosen,
        "model": {"name": MODEL_NAME, "revision": revision},
    }


def stop_services(lab: LabPaths) -> None:
    """Stop the mirror."""
    stop_mirror(lab)
