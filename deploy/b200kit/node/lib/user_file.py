"""Changing a file that belongs to the node's owner: carefully, whole or not at all.

Nothing is changed when anything about the file is odd; the first version of it is kept once.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from b200kit.node.lib import durable_files, managed_files
from b200kit.node.lib.readings import command, is_digits

BACKUPS = Path("/var/lib/b200kit/backup")


class FileRefused(Exception):
    """Why a file is left as it is, in one line that begins with its path."""


def read(path: Path) -> str | None:
    """The file's text, None when there is none; raises Refused when it is no plain file of ours."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise FileRefused(f"{path}: it is a link to {os.readlink(path)}")
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused(f"{path}: it is no plain file")
    if status.st_uid != os.geteuid():
        raise FileRefused(f"{path}: it belongs to {managed_files.owner(status)}, not to root")
    if is_digits(managed_files.owner(status).rpartition(":")[2]):
        raise FileRefused(f"{path}: its group {status.st_gid} has no name")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileRefused(f"{path}: {error}") from None


def replace(path: Path, content: str, markers: Iterable[str], check: list[str]) -> None:
    """Put *content* in the file's place, with its rights; markers of pending handlers before it.

    *check* is a program that must accept the new file, given as its last argument; what it says
    against it is Refused, and then nothing was changed.
    """
    data = content.encode()
    if check:
        _accepted(path, data, check)
    _keep(path)
    for marker in markers:
        durable_files.replace(Path(marker), b"", 0o644, "root:root")
    mode, owner = _rights(path) if path.exists() else (0o644, "root:root")
    durable_files.replace(path, data, mode, owner)


def _rights(path: Path) -> tuple[int, str]:
    status = path.stat()
    return stat.S_IMODE(status.st_mode), managed_files.owner(status)


def _accepted(path: Path, data: bytes, check: list[str]) -> None:
    with tempfile.NamedTemporaryFile(prefix="b200kit.", suffix=path.suffix) as trial:
        trial.write(data)
        trial.flush()
        try:
            command([*check, trial.name])
        except OSError as error:
            raise FileRefused(f"{path}: what it would become is refused: {error}") from None


def _keep(path: Path) -> None:
    """Keep the owner's own version, once: a later one is already partly ours."""
    backup = BACKUPS / str(path).strip("/").replace("/", "-")
    if path.exists() and not backup.exists():
        durable_files.replace(backup, path.read_bytes(), *_rights(path))


def message(refused: FileRefused) -> str:
    """The one line for standard error."""
    return f"b200kit: {' '.join(str(refused).split())}; nothing was changed"
