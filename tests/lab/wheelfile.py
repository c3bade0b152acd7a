"""Wheels written by hand: small, pure Python, the same bytes each time; and reading real ones."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zipfile
from collections.abc import Mapping
from email import message_from_string
from email.message import Message
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)


def normalize(name: str) -> str:
    """Return a distribution's name as PEP 503 compares them."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wheel_name(name: str, version: str) -> str:
    """Return a pure Python wheel's file name."""
    return f"{normalize(name).replace('-', '_')}-{version}-py3-none-any.whl"


def split_wheel_name(file_name: str) -> tuple[str, str]:
    """Return (normalized name, version) of a wheel's file name."""
    name, version = file_name.split("-")[:2]
    return normalize(name), version


def write_wheel(
    directory: Path,
    name: str,
    version: str,
    summary: str,
    files: Mapping[str, bytes] | None = None,
    scripts: Mapping[str, str] | None = None,
) -> Path:
    """Write a wheel of ``files`` (path: content) and console ``scripts`` (name: entry point)."""
    info = f"{normalize(name).replace('-', '_')}-{version}.dist-info"
    content = dict(files or {})
    content[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\n".encode()
    )
    content[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: b200kit-lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    if scripts:
        lines = [f"{script} = {entry}\n" for script, entry in sorted(scripts.items())]
        content[f"{info}/entry_points.txt"] = ("[console_scripts]\n" + "".join(lines)).encode()
    record = "".join(
        f"{path},{_record_hash(data)},{len(data)}\n" for path, data in sorted(content.items())
    )
    content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    target = directory / wheel_name(name, version)
    fresh = target.with_suffix(".new")
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in sorted(content.items()):
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    os.replace(fresh, target)
    return target


def _record_hash(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


def read_metadata(wheel: Path) -> Message:
    """Return a wheel's METADATA; `KeyError` if it has none."""
    with zipfile.ZipFile(wheel) as archive:
        for path in archive.namelist():
            if path.count("/") == 1 and path.endswith(".dist-info/METADATA"):
                return message_from_string(archive.read(path).decode())
    raise KeyError(f"{wheel.name} has no METADATA")


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256 as hex digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
