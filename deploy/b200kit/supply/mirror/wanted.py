"""What there is to fetch for a mirror, as apt, the package index, registries and manifests say it.

Nothing is fetched: `b200 mirror plan` prints it, and build.py fetches it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from b200kit.node.weights.manifest import NAME as MANIFEST
from b200kit.node.weights.manifest import ManifestError, ManifestFile, parse
from b200kit.supply.mirror import images, wheels
from b200kit.supply.mirror.apt_closure import Closure
from b200kit.supply.mirror.images import Image
from b200kit.supply.mirror.needs import MirroredModel, Needs, NodeKind
from b200kit.supply.models.manifest import origin_of
from b200kit.supply.program import SupplyRefused

WHEELS, MODELS = "wheels", "models"


@dataclass(frozen=True)
class MirrorPart:
    """What a plan lists on a line: files of one kind, and where they come from."""

    name: str
    files: int
    bytes: int
    origins: tuple[str, ...]


@dataclass(frozen=True)
class Download:
    """What each of some nodes takes, in bytes; packages at most: it may have some already."""

    kind: NodeKind
    packages: int
    wheels: int
    model: int

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.packages + self.wheels + self.model


@dataclass(frozen=True)
class WantedFiles:
    """Everything that comes from elsewhere: path in the mirror to where from, size and SHA-256."""

    apt: tuple[tuple[Closure, dict[str, ManifestFile]], ...]
    # URL to file of the wheels of each lock.
    locks: Mapping[str, Mapping[str, ManifestFile]]
    models: tuple[tuple[MirroredModel, bytes, tuple[ManifestFile, ...]], ...]
    images: tuple[Image, ...] = ()

    @property
    def wheels(self) -> dict[str, ManifestFile]:
        """URL to file of all wheels."""
        return {url: entry for found in self.locks.values() for url, entry in found.items()}

    def pool(self, system: str) -> dict[str, ManifestFile]:
        """The packages of a system by their file names."""
        every = (found for apt, found in self.apt if apt.of.system == system)
        return {entry.path: entry for found in every for entry in found.values()}

    def files(self) -> dict[str, ManifestFile]:
        """All of it by its path in the mirror."""
        systems = {apt.of.system for apt, _ in self.apt}
        pools = {f"apt/{s}/pool": list(self.pool(s).values()) for s in systems}
        models = {of.folder: [*found, _manifest(raw)] for of, raw, found in self.models}
        pulled = [(image.folder, image.entries) for image in self.images]
        every = [*pools.items(), *models.items(), (WHEELS, self.wheels.values()), *pulled]
        return {f"{folder}/{entry.path}": entry for folder, entries in every for entry in entries}


def _manifest(raw: bytes) -> ManifestFile:
    return ManifestFile(MANIFEST, len(raw), hashlib.sha256(raw).hexdigest())


def find(
    needs: Needs, root: Path, work: Path, distributions: Mapping[str, Path],
    pulled: Sequence[str] = (),
) -> WantedFiles:  # fmt: skip
    """Ask apt, the package index, registries and the models' manifests what there is to fetch."""
    solved = []
    for number, transaction in enumerate(needs.transactions):
        pool = root / "apt" / transaction.system / "pool"
        given = distributions.get(transaction.system)
        apt = Closure(work / f"apt-{number}", transaction, pool, given)
        solved.append((apt, apt.closure()))
    locks = {lock: wheels.wanted(Path(lock)) for lock in needs.locks}
    models = tuple(_of_model(model, root) for model in needs.models)
    return WantedFiles(tuple(solved), locks, models, tuple(map(images.find, dict.fromkeys(pulled))))


def _of_model(
    model: MirroredModel, root: Path
) -> tuple[MirroredModel, bytes, tuple[ManifestFile, ...]]:
    """A model's manifest: pinned beside the inventory, or published into the mirror already."""
    for path in (Path(model.manifest), root / model.folder / MANIFEST):
        if path.is_file():
            raw = path.read_bytes()
            try:
                return model, raw, parse(raw, model.revision)
            except ManifestError as error:
                raise SupplyRefused(f"{path}: {error}") from None
    raise SupplyRefused(
        f"{model.name} {model.revision[:12]} has no manifest: {model.made_by}, or, of your own "
        f"files, b200 model publish DIR --to MIRROR/{MODELS} --name {model.name}"
    )


def parts(of: WantedFiles) -> Iterator[MirrorPart]:
    """The plan's lines."""
    for system in dict.fromkeys(apt.of.system for apt, _ in of.apt):
        pool = of.pool(system).values()
        urls = (url for apt, found in of.apt if apt.of.system == system for url in found)
        yield MirrorPart(f"packages {system}", len(pool), _sum(pool), _hosts(urls))
    if found := of.wheels:
        yield MirrorPart("wheels", len(found), _sum(found.values()), _hosts(found))
    for model, raw, entries in of.models:
        origin = origin_of(raw)
        where = (f"{origin.repository}@{origin.commit[:12]} on the Hub",) if origin else ("here",)
        yield MirrorPart(f"model {model.name}", len(entries), _sum(entries), where)
    for image in of.images:
        host = image.reference.partition("/")[0]
        yield MirrorPart(f"image {image.name}", len(image.entries), _sum(image.entries), (host,))


def downloads(needs: Needs, of: WantedFiles) -> Iterator[Download]:
    """What nodes of each kind take from the mirror, or from the origins."""
    packages = {apt.of: _sum(found.values()) for apt, found in of.apt}
    locks = {lock: _sum(found.values()) for lock, found in of.locks.items()}
    models = {model: _sum(entries) for model, _, entries in of.models}
    for kind in needs.kinds:
        engine = locks[kind.lock] if kind.lock else 0
        yield Download(kind, packages[kind.transaction], engine, models[kind.model])


def _sum(entries: Iterable[ManifestFile]) -> int:
    return sum(entry.size for entry in entries)


def _hosts(urls: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({urlsplit(url).netloc or "this machine" for url in urls}))
