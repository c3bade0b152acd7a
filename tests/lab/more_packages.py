"""Debian's packages on lab nodes beside what their base has, as an administrator installs them.

They are fetched once, with what they need and the base lacks, and kept in the cache like all the
lab's.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.lab.lab import run, say
from tests.lab.locks import shared_lock
from tests.lab.own_network import outside
from tests.lab.paths import LabError, lab_paths
from tests.lab.shell import last_line
from tests.lab.supply.debian_mirror import ensure_pool, pool_of


def install(names: Sequence[str], pool: str, packages: tuple[str, ...]) -> None:
    """Install packages on these nodes; their own scripts run. Raises LabError."""
    paths = lab_paths()
    with shared_lock(paths.root), outside():
        files = ensure_pool(paths, pool_of(paths, pool, packages), say)

    def one(name: str) -> None:
        place = f"var/tmp/{pool}"
        shutil.copytree(files, paths.host(name) / "root" / place, dirs_exist_ok=True)
        done = run(name, ["sh", "-c", f"dpkg -i /{place}/*.deb"])
        if done.returncode:
            raise LabError(f"{name}: {pool} cannot be installed: {last_line(done)}")

    with ThreadPoolExecutor() as workers:
        list(workers.map(one, names))
