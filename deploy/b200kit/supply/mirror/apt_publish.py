"""A pool of packages as a repository that apt reads, by apt-ftparchive; signed, with an expiry."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path

from b200kit.node.lib import durable_files
from b200kit.supply.mirror.signature import Signer
from b200kit.supply.program import SupplyRefused, run

_LIMIT_S = 3600


def publish(folder: Path, system: str, signer: Signer, now: datetime, expires: datetime) -> None:
    """Write the indexes of `pool/` below *folder*: suite *system*, component main.

    apt refuses the repository from *expires* on (Valid-Until); *now* is what that is counted from.
    """
    suite = folder / "dists" / system
    packages = _ftparchive(folder, "packages", "pool").encode()
    binary = suite / "main/binary-amd64"
    durable_files.replace(binary / "Packages", packages)
    durable_files.replace(binary / "Packages.gz", gzip.compress(packages, mtime=0))
    for old in ("Release", "InRelease"):
        # Else it would be listed in itself.
        (suite / old).unlink(missing_ok=True)
    release = _ftparchive(suite, *_fields(system, now, expires), "release", ".")
    durable_files.replace(suite / "Release", release)
    signer.inline(suite / "Release", suite / "InRelease")


def _fields(system: str, now: datetime, expires: datetime) -> list[str]:
    named = {
        "Origin": "b200kit mirror",
        "Suite": system,
        "Codename": system,
        "Architectures": "amd64",
        "Components": "main",
        # Seconds from now, of which it makes Valid-Until: that field it passes over (apt 2.6).
        "ValidTime": str(int((expires - now).total_seconds())),
    }
    return [
        word
        for name, value in named.items()
        for word in ("-o", f"APT::FTPArchive::Release::{name}={value}")
    ]


def _ftparchive(folder: Path, *arguments: str) -> str:
    argv = ["apt-ftparchive", *arguments]
    done = run("apt-utils", argv, _LIMIT_S, cwd=folder, text=True, errors="replace")
    if done.returncode:
        last = (done.stderr.strip() or "it gave no reason").splitlines()[-1]
        raise SupplyRefused(f"apt-ftparchive: {last}")
    return str(done.stdout)
