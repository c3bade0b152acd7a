"""Which wheel of a lock a node takes, and where it is: by uv, which asks the index for metadata.

Where the index is, is uv's own setting. The lock's hashes say which bytes may come.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import requests
from packaging.pylock import PackageWheel, Pylock, PylockValidationError
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from b200kit.inventory import engine_rules
from b200kit.node.weights.manifest import ManifestFile
from b200kit.supply.locks import lock_file, resolver
from b200kit.supply.program import SupplyRefused

_TIMEOUT_S = 60
# A wheel's parts may have more in them than a name of a file (packaging does not look).
_FILE_NAME = re.compile(r"[A-Za-z0-9_.+!-]+\.whl")
_OLDEST_GLIBC, _DEFAULT_GLIBC = 5, "2.34"


def wanted(lock: Path) -> dict[str, ManifestFile]:
    """URL to file of every wheel that a lock installs, on the Python and glibc that it names."""
    try:
        text = lock.read_text(encoding="utf-8")
    except OSError as error:
        raise SupplyRefused(f"{lock}: {error.strerror}") from None
    pythons = engine_rules.python_of(text)
    if len(pythons) != 1:
        raise SupplyRefused(f'{lock} names no single Python: add "# python: 3.12"')
    [(major, minor)] = pythons
    glibc = (lock_file.said(text, "glibc") or [_DEFAULT_GLIBC])[0]
    try:
        chosen = resolver.placed(lock, f"{major}.{minor}", glibc)
    except SupplyRefused as error:
        raise SupplyRefused(f"{lock.name}: {error}") from None
    pins = lock_file.pins(text)
    try:
        files = dict(_files(tomllib.loads(chosen), (major, minor), glibc))
    except (tomllib.TOMLDecodeError, PylockValidationError, RecursionError) as error:
        raise SupplyRefused(f"{lock.name}: what uv writes is no lock: {error}") from None
    _require_all(lock, pins, files)
    return dict(files.values())


def _files(
    document: dict[str, object], python: tuple[int, int], glibc: str
) -> Iterator[tuple[str, tuple[str, ManifestFile]]]:
    """Name of a package to URL and file of its wheel."""
    where = {"python_version": "{}.{}".format(*python), "sys_platform": "linux",
             "platform_machine": "x86_64", "platform_system": "Linux", "os_name": "posix",
             "python_full_version": "{}.{}.0".format(*python), "platform_release": "",
             "platform_version": "", "implementation_name": "cpython",
             "implementation_version": "{}.{}.0".format(*python),
             "platform_python_implementation": "CPython"}  # fmt: skip
    lock = Pylock.from_dict(document)
    for package, file in lock.select(environment=where, tags=list(tags(python, glibc))):  # type: ignore[arg-type]
        if not isinstance(file, PackageWheel) or not file.url:
            raise SupplyRefused(f"{package.name}: the index has no wheel of it")
        size = file.size if file.size is not None else _size(file.url)
        name = named(package.name, str(package.version), file.url)
        yield package.name, (file.url, ManifestFile(name, size, file.hashes.get("sha256", "")))


def named(package: str, version: str, url: str) -> str:
    """The wheel's file name in a URL: one of this package and version, and of no other place."""
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    try:
        distribution, number, *_ = parse_wheel_filename(name)
        sound = (distribution, number) == (canonicalize_name(package), Version(version))
    except (InvalidWheelFilename, InvalidVersion):
        sound = False
    if not sound or not _FILE_NAME.fullmatch(name):
        raise SupplyRefused(f"{package}: the index names {name!r}, no wheel of {package} {version}")
    return name


def tags(python: tuple[int, int], glibc: str) -> Iterator[Tag]:
    """What a CPython on Linux and x86-64 with that glibc takes, the best first."""
    newest = int(glibc.partition(".")[2])
    platforms = [
        *(f"manylinux_2_{minor}_x86_64" for minor in range(newest, _OLDEST_GLIBC - 1, -1)),
        *(f"manylinux{year}_x86_64" for year in (2014, 2010, 1)),
        "linux_x86_64",
    ]
    yield from cpython_tags(python, platforms=platforms)
    yield from compatible_tags(python, f"cp{python[0]}{python[1]}", platforms)


def _size(url: str) -> int:
    """What the server says; an index may leave it out."""
    try:
        answer = requests.head(url, timeout=_TIMEOUT_S, allow_redirects=True)
        answer.raise_for_status()
        return int(answer.headers["Content-Length"])
    except (requests.RequestException, KeyError, ValueError):
        raise SupplyRefused(f"{url}: its size is not known") from None


def _require_all(
    lock: Path, pins: dict[str, lock_file.LockedPackage], files: dict[str, tuple[str, ManifestFile]]
) -> None:
    for name, pin in pins.items():
        if name not in files:
            raise SupplyRefused(f"{lock.name}: the index has no wheel of {name} {pin.version}")
        _, entry = files[name]
        if f"sha256:{entry.sha256}" not in pin.hashes:
            message = f"the index has another {entry.path} than the lock"
            raise SupplyRefused(f"{lock.name}: {message}")


def page(names: list[str]) -> bytes:
    """What pip reads by --find-links."""
    rows = "".join(f'<a href="{quote(name)}">{escape(name)}</a><br>\n' for name in sorted(names))
    return f"<!DOCTYPE html>\n<title>wheels</title>\n{rows}".encode()
