"""A mirror out of what is wanted: fetched, published, signed. Killed, it goes on the next time.

Every file is proven where it arrives: packages by apt, wheels and models by SHA-256. SHA256SUMS
is written last, so a directory without a good one is no mirror yet.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from b200kit.node.lib import durable_files
from b200kit.node.weights.download import sha256
from b200kit.node.weights.manifest import PARTIAL, ManifestFile
from b200kit.node.weights.source import FileSource
from b200kit.supply.mirror import images, sums, wheels
from b200kit.supply.mirror.needs import MirroredModel, Needs
from b200kit.supply.mirror.signature import Signer
from b200kit.supply.mirror.sums import Sums
from b200kit.supply.mirror.wanted import MODELS, WHEELS, WantedFiles
from b200kit.supply.models import hub, publish
from b200kit.supply.models.manifest import origin_of
from b200kit.supply.program import SupplyRefused, run

KEY = "keys/mirror.asc"
_TOP = ("apt", WHEELS, MODELS, images.FOLDER, "keys", *sums.OWN)
_PAGE = f"{WHEELS}/index.html"
Say = Callable[[str], None]


def is_built(root: Path, of: WantedFiles, signer: Signer) -> bool:
    """Whether the mirror has these files already, by good sums with time left."""
    try:
        there = sums.read(root)
    except (OSError, SupplyRefused):
        return False
    wanted = of.files()
    more = [path for path in there.files if path not in wanted and _is_fetched(path)]
    return (
        signer.has_signed(root / sums.NAME, root / sums.SIGNATURE)
        and {path: entry.sha256 for path, entry in wanted.items()}.items() <= there.files.items()
        and all(_has_size(root / path, wanted.get(path)) for path in there.files)
        and not more
        and there.is_fresh
    )


def _has_size(file: Path, entry: ManifestFile | None) -> bool:
    there = file.is_file() and not file.is_symlink()
    return there and (entry is None or file.stat().st_size == entry.size)


def _is_fetched(path: str) -> bool:
    """Whether a build brings and removes it; models that nobody wants now stay."""
    return not _is_made_here(path) and not path.startswith(f"{MODELS}/")


def _is_made_here(path: str) -> bool:
    return path in (KEY, _PAGE) or path.split("/")[2:3] == ["dists"]


def require_own(root: Path) -> None:
    """Refuse a directory that holds something else: a build removes what is no part of it."""
    foreign = sorted(path.name for path in root.iterdir() if path.name not in _TOP)
    if foreign:
        raise SupplyRefused(f"{root} holds {foreign[0]}, which is no part of a mirror")


def fetch(root: Path, of: WantedFiles, say: Say) -> None:
    """Bring everything that is not there."""
    # No mirror from here on, until the next sums.
    for name in sums.OWN:
        (root / name).unlink(missing_ok=True)
    for apt, found in of.apt:
        pool = root / "apt" / apt.of.system / "pool"
        _only(pool, of.pool(apt.of.system))
        say(f"packages {apt.of.system}: {len(found)} files")
        apt.fetch()
        _prove(pool, found.values())
        shutil.rmtree(pool / "partial", ignore_errors=True)
    _fetch_wheels(root / WHEELS, of.wheels, say)
    for model, raw, entries in of.models:
        _fetch_model(root, model, raw, entries, say)
    for image in of.images:
        images.fetch(root, image, say)


def _only(folder: Path, entries: Mapping[str, ManifestFile]) -> None:
    """Remove what is no longer wanted, and what is damaged, so that it is fetched again."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        entry = entries.get(path.name)
        if path.is_file() and (entry is None or sha256(path) != entry.sha256):
            path.unlink()


def _prove(pool: Path, entries: Iterable[ManifestFile]) -> None:
    for entry in entries:
        path = pool / entry.path
        if not path.is_file() or sha256(path) != entry.sha256:
            raise SupplyRefused(f"{path}: content is not what the repository's index names")


def _fetch_wheels(folder: Path, of: Mapping[str, ManifestFile], say: Say) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    named = {entry.path: url for url, entry in of.items()}
    for path in folder.iterdir():
        if path.name.removesuffix(PARTIAL) not in named:
            path.unlink()

    def source(entry: ManifestFile) -> FileSource:
        return FileSource(named[entry.path].rpartition("/")[0])

    publish.fetch(folder, list(of.values()), source, lambda line: say(f"wheels: {line}"))
    (folder / f".lock{PARTIAL}").unlink(missing_ok=True)
    durable_files.replace(folder / "index.html", wheels.page(list(named)))


def _fetch_model(
    root: Path, model: MirroredModel, raw: bytes, entries: Sequence[ManifestFile], say: Say
) -> None:
    target = root / model.folder
    if publish.is_there(target, raw, entries):
        return
    origin = origin_of(raw)
    if origin is None:
        raise SupplyRefused(f"{target} is not whole: b200 model publish brings the rest")
    source = hub.source(origin)
    folder = publish.building(root / "models", model.name, raw)
    publish.fetch(folder, entries, lambda _: source, lambda line: say(f"{model.name}: {line}"))
    publish.place(folder, raw, entries)


def finish(root: Path, needs: Needs, of: WantedFiles, signer: Signer, days: int) -> Sums:
    """Publish the packages, remove what nobody wants, write and sign the sums."""
    now = datetime.now(UTC).replace(microsecond=0)
    expires = now + timedelta(days=days)
    for system in needs.systems:
        _publish_apt(root / "apt" / system, system, signer, now, expires)
    durable_files.replace(root / KEY, signer.public)
    files = {path: entry.sha256 for path, entry in of.files().items()}
    _remove_others(root, needs, files)
    files |= {path: sha256(root / path) for path in _all(root) if path not in files}
    made = Sums(now, expires, needs.described, files)
    durable_files.replace(root / sums.NAME, made.text())
    signer.detached(root / sums.NAME, root / sums.SIGNATURE)
    return made


def _remove_others(root: Path, needs: Needs, files: Collection[str]) -> None:
    """What an earlier build brought and this one does not want."""
    for folder in [*(root / "apt").iterdir(), *(root / MODELS).glob("*/*.building")]:
        if folder.parent.name != "apt" or folder.name not in needs.systems:
            shutil.rmtree(folder)
    for path in list(_all(root)):
        if path not in files and _is_fetched(path):
            (root / path).unlink()


def _all(root: Path) -> Iterator[str]:
    for path in root.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(root).as_posix()


_FTPARCHIVE_S = 3600


def _publish_apt(
    folder: Path, system: str, signer: Signer, now: datetime, expires: datetime
) -> None:
    """Write the indexes of `pool/` below *folder* by apt-ftparchive; suite *system*, main.

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
    done = run("apt-utils", argv, _FTPARCHIVE_S, cwd=folder, text=True, errors="replace")
    if done.returncode:
        last = (done.stderr.strip() or "it gave no reason").splitlines()[-1]
        raise SupplyRefused(f"apt-ftparchive: {last}")
    return str(done.stdout)
