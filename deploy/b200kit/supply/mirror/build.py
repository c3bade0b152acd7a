"""A mirror out of its needs: planned, fetched, published, signed. Killed, it goes on the next time.

Every file is proven where it arrives: packages by apt, wheels and models by SHA-256. The index is
written last, so a directory without a good one is no mirror yet.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from b200kit.node.lib import durable_files
from b200kit.node.weights.download import sha256
from b200kit.node.weights.manifest import NAME as MANIFEST
from b200kit.node.weights.manifest import PARTIAL, Entry, ManifestError, parse
from b200kit.node.weights.source import Source
from b200kit.supply.mirror import apt_publish, images, index, wheels
from b200kit.supply.mirror.apt_closure import Apt, AptRefused
from b200kit.supply.mirror.images import Image
from b200kit.supply.mirror.index import Bytes, Index
from b200kit.supply.mirror.needs import Checkpoint, Needs
from b200kit.supply.mirror.signature import Signer
from b200kit.supply.models import hub, publish
from b200kit.supply.models.manifest import origin_of

KEY = "keys/mirror.asc"
WHEELS, MODELS = "wheels", "models"
_TOP = ("apt", WHEELS, MODELS, images.FOLDER, "keys", *index.OWN)
_PAGE = f"{WHEELS}/index.html"
Say = Callable[[str], None]


class BuildRefused(Exception):
    """Why a mirror is not built, in one line."""


@dataclass(frozen=True)
class Part:
    """What a plan lists on a line: files of one kind, and where they come from."""

    name: str
    files: int
    bytes: int
    origins: tuple[str, ...]


@dataclass(frozen=True)
class Wanted:
    """Everything that comes from elsewhere: path in the mirror to where from, size and SHA-256."""

    apt: tuple[tuple[Apt, dict[str, Entry]], ...]
    wheels: Mapping[str, Entry]
    models: tuple[tuple[Checkpoint, bytes, tuple[Entry, ...]], ...]
    images: tuple[Image, ...] = ()

    def pool(self, system: str) -> dict[str, Entry]:
        """The packages of a system by their file names."""
        every = (found for apt, found in self.apt if apt.of.system == system)
        return {entry.path: entry for found in every for entry in found.values()}

    def files(self) -> dict[str, Bytes]:
        """All of it as an index has it."""
        systems = {apt.of.system for apt, _ in self.apt}
        pools = {f"apt/{s}/pool": list(self.pool(s).values()) for s in systems}
        models = {of.folder: [*found, _manifest(raw)] for of, raw, found in self.models}
        pulled = [(image.folder, image.entries) for image in self.images]
        every = [*pools.items(), *models.items(), (WHEELS, self.wheels.values()), *pulled]
        return {
            f"{folder}/{entry.path}": Bytes(entry.size, entry.sha256)
            for folder, entries in every
            for entry in entries
        }


def _manifest(raw: bytes) -> Entry:
    return Entry(MANIFEST, len(raw), hashlib.sha256(raw).hexdigest())


def wanted(
    needs: Needs, root: Path, work: Path, distributions: Mapping[str, Path],
    pulled: Sequence[str] = (),
) -> Wanted:  # fmt: skip
    """Ask apt, the package index, registries and the models' manifests what there is to fetch."""
    solved = []
    for number, transaction in enumerate(needs.transactions):
        pool = root / "apt" / transaction.system / "pool"
        given = distributions.get(transaction.system)
        apt = Apt(work / f"apt-{number}", transaction, pool, given)
        solved.append((apt, apt.closure()))
    found: dict[str, Entry] = {}
    for lock in needs.locks:
        found |= wheels.wanted(Path(lock))
    models = tuple(_of_model(model, root) for model in needs.models)
    return Wanted(tuple(solved), found, models, tuple(map(images.find, dict.fromkeys(pulled))))


def _of_model(model: Checkpoint, root: Path) -> tuple[Checkpoint, bytes, tuple[Entry, ...]]:
    """A model's manifest: pinned beside the inventory, or published into the mirror already."""
    for path in (Path(model.manifest), root / model.folder / MANIFEST):
        if path.is_file():
            raw = path.read_bytes()
            try:
                return model, raw, parse(raw, model.revision)
            except ManifestError as error:
                raise BuildRefused(f"{path}: {error}") from None
    raise BuildRefused(
        f"{model.name} {model.revision[:12]} has no manifest: {model.made_by}, or, of your own "
        f"files, b200 model publish DIR --to MIRROR/{MODELS} --name {model.name}"
    )


def parts(of: Wanted) -> Iterator[Part]:
    """The plan's lines."""
    for system in dict.fromkeys(apt.of.system for apt, _ in of.apt):
        pool = of.pool(system).values()
        urls = (url for apt, found in of.apt if apt.of.system == system for url in found)
        yield Part(f"packages {system}", len(pool), _sum(pool), _hosts(urls))
    if of.wheels:
        yield Part("wheels", len(of.wheels), _sum(of.wheels.values()), _hosts(of.wheels))
    for model, raw, entries in of.models:
        origin = origin_of(raw)
        where = (f"{origin.repository}@{origin.commit[:12]} on the Hub",) if origin else ("here",)
        yield Part(f"model {model.name}", len(entries), _sum(entries), where)
    for image in of.images:
        host = image.reference.partition("/")[0]
        yield Part(f"image {image.name}", len(image.entries), _sum(image.entries), (host,))


def _sum(entries: Iterable[Entry]) -> int:
    return sum(entry.size for entry in entries)


def _hosts(urls: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({urlsplit(url).netloc or "this machine" for url in urls}))


def is_built(root: Path, of: Wanted, signer: Signer, now: datetime) -> bool:
    """Whether the mirror has these files already, by a good index with time left."""
    try:
        there = index.parse((root / index.NAME).read_bytes())
    except (OSError, index.IndexRefused):
        return False
    if not signer.has_signed(root / index.NAME, root / index.SIGNATURE):
        return False
    here = all(_is_there(root, path, file) for path, file in there.files.items())
    wanted = of.files()
    same = wanted.items() <= there.files.items()
    more = [path for path in there.files if path not in wanted and _is_fetched(path)]
    return here and same and not more and index.is_fresh(there, now)


def _is_fetched(path: str) -> bool:
    """Whether a build brings and removes it; models that nobody wants now stay."""
    return not _is_made_here(path) and not path.startswith(f"{MODELS}/")


def _is_made_here(path: str) -> bool:
    return path in (KEY, _PAGE) or path.split("/")[2:3] == ["dists"]


def _is_there(root: Path, path: str, of: Bytes) -> bool:
    file = root / path
    return file.is_file() and not file.is_symlink() and file.stat().st_size == of.size


def require_own(root: Path) -> None:
    """Refuse a directory that holds something else: a build removes what is no part of it."""
    foreign = sorted(path.name for path in root.iterdir() if path.name not in _TOP)
    if foreign:
        raise BuildRefused(f"{root} holds {foreign[0]}, which is no part of a mirror")


def fetch(root: Path, of: Wanted, say: Say) -> None:
    """Bring everything that is not there."""
    # No mirror from here on, until the next index.
    for name in index.OWN:
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


def _only(folder: Path, entries: Mapping[str, Entry]) -> None:
    """Remove what is no longer wanted, and what is damaged, so that it is fetched again."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        entry = entries.get(path.name)
        if path.is_file() and (entry is None or sha256(path) != entry.sha256):
            path.unlink()


def _prove(pool: Path, entries: Iterable[Entry]) -> None:
    for entry in entries:
        path = pool / entry.path
        if not path.is_file() or sha256(path) != entry.sha256:
            raise AptRefused(f"{path}: content is not what the repository's index names")


def _fetch_wheels(folder: Path, of: Mapping[str, Entry], say: Say) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    named = {entry.path: url for url, entry in of.items()}
    for path in folder.iterdir():
        if path.name.removesuffix(PARTIAL) not in named:
            path.unlink()

    def source(entry: Entry) -> Source:
        return Source(named[entry.path].rpartition("/")[0])

    publish.fetch(folder, list(of.values()), source, lambda line: say(f"wheels: {line}"))
    (folder / f".lock{PARTIAL}").unlink(missing_ok=True)
    durable_files.replace(folder / "index.html", wheels.page(list(named)))


def _fetch_model(
    root: Path, model: Checkpoint, raw: bytes, entries: Sequence[Entry], say: Say
) -> None:
    target = root / model.folder
    if publish.is_there(target, raw, entries):
        return
    origin = origin_of(raw)
    if origin is None:
        raise BuildRefused(f"{target} is not whole: b200 model publish brings the rest")
    source = hub.source(origin)
    folder = publish.building(root / "models", model.name, raw)
    publish.fetch(folder, entries, lambda _: source, lambda line: say(f"{model.name}: {line}"))
    publish.place(folder, raw, entries)


def finish(root: Path, needs: Needs, of: Wanted, signer: Signer, days: int) -> Index:
    """Publish the packages, remove what nobody wants, write and sign the index."""
    now = datetime.now(UTC).replace(microsecond=0)
    expires = now + timedelta(days=days)
    for system in needs.systems:
        apt_publish.publish(root / "apt" / system, system, signer, now, expires)
    durable_files.replace(root / KEY, signer.public)
    files = dict(of.files())
    _remove_others(root, needs, files)
    files |= {path: _read(root / path) for path in _all(root) if path not in files}
    made = Index(now, expires, needs.described, files)
    durable_files.replace(root / index.NAME, index.written(made))
    signer.detached(root / index.NAME, root / index.SIGNATURE)
    return made


def _remove_others(root: Path, needs: Needs, files: Mapping[str, Bytes]) -> None:
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


def _read(path: Path) -> Bytes:
    return Bytes(path.stat().st_size, sha256(path))
