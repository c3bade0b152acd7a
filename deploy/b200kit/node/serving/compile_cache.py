"""`compile-cache`: the hook before a replica's start, and packing what a warm replica has compiled.

`prepare` runs as the engine's own user, in its sandbox: it has the engine's rights only. It
makes the directory of this configuration's key, fills it from a pack that fits exactly, and removes
the keys that were not used for longest. It never keeps a replica from starting.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from b200kit.node.facts.system import os_release
from b200kit.node.lib import documents
from b200kit.node.serving import compile_cache_key as rules
from b200kit.node.serving.compile_cache_key import RECORD
from b200kit.node.weights.download import sha256

PACKS = Path("/var/lib/b200kit/caches")
_MOST = 64 << 30


class PackError(Exception):
    """Why a pack cannot be used, in one line."""


def main(args: list[str]) -> int:
    """Prepare a replica's directory (always 0), or pack it (0, 1 with one line)."""
    parser = argparse.ArgumentParser(prog="compile-cache")
    parser.add_argument("act", choices=("prepare", "pack"))
    parser.add_argument("--root", type=Path, required=True, help="directory of one replica")
    parser.add_argument("--key", help="the configuration's; to pack: the one used last")
    parser.add_argument("--keep", type=int, default=rules.KEEP)
    parser.add_argument("--packs", type=Path, default=PACKS, help="where packed caches lie")
    options = parser.parse_args(args)
    try:
        return prepare(options) if options.act == "prepare" else pack(options)
    except (OSError, PackError, tarfile.TarError) as error:
        print(f"caches not {options.act}d: {error}", file=sys.stderr)
        # Without its caches a replica starts slowly, and that is all.
        return 0 if options.act == "prepare" else 1


def prepare(options: argparse.Namespace) -> int:
    """Make the key's directory, fill it if a pack fits, note its use, remove older keys."""
    here: Path = options.root / str(options.key)
    # The engine may write here: a link that it laid must lead nobody anywhere.
    for path in (here, here / RECORD):
        if path.is_symlink():
            path.unlink()
    if not (here / RECORD).exists():
        _fill_from(options.packs, here, options.key)
    here.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (here / RECORD).exists():
        (here / RECORD).write_text(json.dumps(head(options.key)))
    os.utime(here / RECORD)
    for name in rules.surplus(used(options.root), options.key, options.keep):
        shutil.rmtree(options.root / name)
        print(f"removed the caches of key {name}")
    return 0


def head(key: str) -> dict[str, Any]:
    """What a key's directory says of itself."""
    return {"schema": "b200kit/caches/1", "key": key, "host": host()}


def host() -> dict[str, str]:
    """What compiled launchers depend on besides the key."""
    release = os_release()
    return {
        "arch": platform.machine(),
        "os": f"{release.get('id')} {release.get('version_id')}",
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


def used(root: Path) -> dict[str, float]:
    """Key to when it was used last; what has no record is older than all."""
    found = {}
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            mark = path / RECORD
            found[path.name] = mark.stat().st_mtime if mark.is_file() else 0.0
    return found


def _fill_from(packs: Path, here: Path, key: str) -> None:
    """Begin with the first pack that fits exactly; say of each other why it does not."""
    for pack_file in sorted(packs.glob("*.tar")):
        try:
            return _fill(pack_file, here, key)
        except (OSError, PackError, tarfile.TarError) as error:
            print(f"{pack_file} is not used: {error}")
    return None


def _fill(pack_file: Path, here: Path, key: str) -> None:
    """Unpack beside the directory and put it in place whole."""
    with tarfile.open(pack_file, "r:") as archive:
        _require_fit(archive, key)
        fresh = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=here.parent))
        try:
            for member in archive:
                _unpack(archive, member, fresh)
            if here.exists():
                shutil.rmtree(here)
            fresh.rename(here)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
    print(f"caches begin with {pack_file.name}")


def _require_fit(archive: tarfile.TarFile, key: str) -> None:
    first = archive.next()
    file = archive.extractfile(first) if first and first.name == RECORD else None
    try:
        metadata = documents.parse(file.read(1 << 16)) if file else {}
    except ValueError:
        metadata = {}
    why = rules.unlike(metadata if isinstance(metadata, dict) else {}, key, host())
    if why:
        raise PackError(why)
    members = archive.getmembers()
    strange = next((m.name for m in members if not (m.isreg() or m.isdir())), "")
    outside = rules.safe_names([m.name for m in members])
    if strange or outside:
        raise PackError(f"it holds {strange or outside}, which is no plain file of a cache")
    if sum(m.size for m in members) > _MOST:
        raise PackError("it is larger than any cache")


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    target = into / member.name
    if member.isdir():
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        return
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    source = archive.extractfile(member)
    assert source is not None  # noqa: S101 - a plain file has content
    with source, target.open("xb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
    target.chmod(0o700 if member.mode & 0o100 else 0o600)
    os.utime(target, (member.mtime, member.mtime))


def pack(options: argparse.Namespace) -> int:
    """Pack a key's directory under the name of its hash; prints the hash."""
    observed = used(options.root)
    last = max(observed, key=lambda name: observed[name], default="")
    key = last if options.key is None else options.key
    here: Path = options.root / key
    if not key or not (here / RECORD).is_file():
        raise PackError(f"no replica was prepared in {here}")
    options.packs.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=options.packs, prefix=".packing-")
    try:
        with os.fdopen(descriptor, "wb") as out, _as_owner(here):
            _write(out, here)
        digest = sha256(Path(name))
        os.chmod(name, 0o444)
        os.replace(name, options.packs / f"{digest}.tar")
    except BaseException:
        os.unlink(name)
        raise
    print(digest)
    return 0


def _write(out: IO[bytes], here: Path) -> None:
    # A file with two names would be packed as a link without "dereference"; links are left out.
    with tarfile.open(
        fileobj=out, mode="w:", format=tarfile.PAX_FORMAT, dereference=True
    ) as archive:
        archive.add(here / RECORD, RECORD)
        for path in sorted(here.rglob("*")):
            name = path.relative_to(here).as_posix()
            if name != RECORD and not path.is_symlink() and (path.is_file() or path.is_dir()):
                archive.add(path, name, recursive=False, filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A member without its owner."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member if member.isreg() or member.isdir() else None


@contextmanager
def _as_owner(path: Path) -> Iterator[None]:
    """Read with the rights of the engine's user: links that it lays lead it nowhere new."""
    owner = path.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
