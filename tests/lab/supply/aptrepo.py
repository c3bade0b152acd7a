"""Flat, signed apt repositories (``Suites: ./``) out of a directory of ``.deb`` files."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.lab.mounts import remove_tree
from tests.lab.paths import LabError
from tests.lab.shell import run
from tests.lab.supply.gpg import SigningKey

VALID_FOR = timedelta(days=3650)


def release_text(indexes: Mapping[str, bytes], label: str, now: datetime, suite: str = "./") -> str:
    """Return a Release file that covers ``indexes`` (name to content), valid for ten years.

    ``now`` must be in UTC: apt reads the dates as such.
    """
    fields = {
        "Origin": label,
        "Label": label,
        # apt compares Suite with what the source asks for: "./" in a flat repository.
        "Suite": suite,
        "Date": _date(now),
        "Valid-Until": _date(now + VALID_FOR),
        "Architectures": "amd64",
        "Description": f"{label} (throwaway, for tests)",
    }
    lines = [f"{key}: {value}" for key, value in fields.items()]
    for title, algorithm in (("MD5Sum", "md5"), ("SHA256", "sha256")):
        lines.append(f"{title}:")
        for name, content in sorted(indexes.items()):
            digest = hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
            lines.append(f" {digest} {len(content)} {name}")
    return "\n".join(lines) + "\n"


def _date(moment: datetime) -> str:
    return moment.strftime("%a, %d %b %Y %H:%M:%S UTC")


def is_left_out(deb: Path, leave_out: Collection[str]) -> bool:
    """Return whether a ``.deb`` is of a package in ``leave_out``: ``name`` or ``name=version``."""
    name, _, version = deb.stem.partition("_")
    version = version.rpartition("_")[0].replace("%3a", ":")
    return name in leave_out or f"{name}={version}" in leave_out


def publish(
    directory: Path,
    debs: Iterable[Path],
    key: SigningKey,
    label: str,
    leave_out: Collection[str] = (),
) -> None:
    """Replace the repository at ``directory`` by one of these packages, signed with ``key``.

    The new one is complete before it takes the old one's place. ``leave_out`` names packages
    (``name`` or ``name=version``) to keep out of it.
    """
    chosen = [deb for deb in debs if not is_left_out(deb, leave_out)]
    if not chosen:
        raise LabError(f"{directory} would be an empty repository: there are no packages for it")
    building = directory.with_name(f"{directory.name}.building")
    remove_tree(building)
    pool = building / "pool"
    pool.mkdir(parents=True)
    for deb in chosen:
        _place(deb, pool / deb.name)
    packages = run(["apt-ftparchive", "packages", "pool"], cwd=building).stdout.encode()
    indexes = {"Packages": packages, "Packages.gz": gzip.compress(packages, mtime=0)}
    for name, content in indexes.items():
        (building / name).write_bytes(content)
    release = building / "Release"
    release.write_text(release_text(indexes, label, datetime.now(UTC)), encoding="utf-8")
    key.sign_release(release)
    _swap(building, directory)


def publish_suites(
    directory: Path,
    suites: Mapping[str, Iterable[Path]],
    component: str,
    key: SigningKey,
    label: str,
) -> None:
    """Replace the repository at ``directory`` by one of suites (name to packages), as Ubuntu's."""
    building = directory.with_name(f"{directory.name}.building")
    remove_tree(building)
    for suite, debs in suites.items():
        pool, dist = building / "pool" / suite, building / "dists" / suite
        (index := dist / component / "binary-amd64").mkdir(parents=True)
        pool.mkdir(parents=True)
        for deb in debs:
            _place(deb, pool / deb.name)
        listed = run(["apt-ftparchive", "packages", f"pool/{suite}"], cwd=building).stdout.encode()
        (index / "Packages").write_bytes(listed)
        names = {f"{component}/binary-amd64/Packages": listed}
        release = dist / "Release"
        release.write_text(release_text(names, label, datetime.now(UTC), suite), encoding="utf-8")
        key.sign_release(release)
    _swap(building, directory)


def _place(source: Path, target: Path) -> None:
    """Put a package into the pool: a hard link where possible, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        target.write_bytes(source.read_bytes())


def _swap(fresh: Path, directory: Path) -> None:
    """Put a finished directory in another one's place."""
    old = directory.with_name(f"{directory.name}.old")
    remove_tree(old)
    if directory.exists():
        directory.rename(old)
    fresh.rename(directory)
    remove_tree(old)
