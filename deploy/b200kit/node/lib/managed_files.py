"""Readings of managed files: digest, owner, mode; of secrets only a keyed digest."""

from __future__ import annotations

import grp
import hashlib
import hmac
import os
import pwd
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.lib import boot_clock, documents
from b200kit.node.lib.readings import attempt, is_digits, is_unmeasured, unmeasured

STATE_DIRECTORY = Path("/var/lib/b200kit")
NOTES = {
    **{name: name for name in ("smoke", "verdict", "passport", "bandwidth", "packages", "reboot")},
    "watchdog_mark": "watchdog-mark",
    **{name: name for name in ("quarantine", "served", "reprovision")},
}
"""What lies in STATE_DIRECTORY: key of a note to its file's name, without ".json"."""


def observed(path: str, digest: Callable[[bytes], dict[str, str]]) -> Any:
    """A file's digest, mode and owner; its target when it is a link; null when it is not there.

    A directory has mode and owner only.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return {"link": os.readlink(path)}
    permissions: dict[str, Any] = {
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "owner": owner(status),
    }
    if stat.S_ISDIR(status.st_mode):
        return {"directory": True, **permissions}
    if not stat.S_ISREG(status.st_mode):
        return unmeasured("it is neither a file nor a directory")
    return {**digest(Path(path).read_bytes()), **permissions}


def owner(status: os.stat_result) -> str:
    """user:group by name, by number where there is no name."""
    user, group = str(status.st_uid), str(status.st_gid)
    try:
        user = pwd.getpwuid(status.st_uid).pw_name
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        pass
    return f"{user}:{group}"


def sha256(content: bytes) -> dict[str, str]:
    """Plain digest."""
    return {"sha256": hashlib.sha256(content).hexdigest()}


def keyed(nonce: str) -> Callable[[bytes], dict[str, str]]:
    """Digest keyed by a nonce of this one run, so that it can be compared but not looked up."""
    key = bytes.fromhex(nonce)
    return lambda content: {"hmac": hmac.new(key, content, hashlib.sha256).hexdigest()}


def observe_secret(path: str, nonce: str) -> Any:
    """A secret file's reading; a nonce that is no hexadecimal raises ValueError."""
    return observed(path, keyed(nonce))


def files(paths: list[str], secrets: dict[str, str]) -> dict[str, Any]:
    """Readings of plain files and of secret files by path."""
    plain = {path: attempt(partial(observed, path, sha256)) for path in paths}
    hidden = {
        path: attempt(partial(observe_secret, path, nonce)) for path, nonce in secrets.items()
    }
    return {**plain, **hidden}


def notes(
    directory: Path = STATE_DIRECTORY, read: Callable[[Path], Any] | None = None
) -> dict[str, Any]:
    """What earlier runs left: results, what is remembered of the node, warm-ups, the agent.

    *read*: how a file is read; `note` by default.
    """
    one = read or note
    files = {key: directory / f"{name}.json" for key, name in NOTES.items()}
    warm = {path.stem.removeprefix("warm-"): path for path in sorted(directory.glob("warm-*.json"))}
    return {
        **{key: attempt(partial(one, path)) for key, path in files.items()},
        **_of_agent(attempt(partial(one, directory / "agent/agent.json"))),
        "warm": {number: attempt(partial(one, path)) for number, path in warm.items()},
    }


def _of_agent(found: Any) -> dict[str, Any]:
    """Its last look, its proof, and what it remembers of each replica: as the agent's file has it.

    A look of another boot is none of this one.
    """
    if not isinstance(found, dict) or is_unmeasured(found):
        return {"watch": found, "proof": found, "watchdog": {} if found is None else found}
    here = found.get("boot_id") == boot_clock.now().boot_id
    return {
        "watch": found.get("watch") if here else None,
        "proof": found.get("proof"),
        "watchdog": found.get("watchdog", {}),
    }


def of_each(directory: Path, name: str) -> dict[str, Any]:
    """Numbered directory of another user to the document of that name in it, null without one."""
    numbers = sorted(path.name for path in directory.glob("*") if is_digits(path.name))
    small = partial(note, most=documents.MOST_BYTES)
    return {number: attempt(partial(small, directory / number / name)) for number in numbers}


def note(path: Path, most: int = documents.LARGE) -> Any:
    """Parsed content, null when the file is not there; raises Malformed when it is no JSON."""
    try:
        return documents.read(path, most)
    except FileNotFoundError:
        return None
