"""`b200 doctor`: is this machine, the controller, ready to run b200kit?"""

from __future__ import annotations

import locale
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import click

from b200kit.cli.command import JSON, Command
from b200kit.cli.deploys import INVENTORY
from b200kit.node.facts.system import clock_synchronized
from b200kit.node.lib.documents import unstructure
from b200kit.operations import site_problems
from b200kit.operations.inventory_process import InventoryRefused
from b200kit.operations.site_problems import InventoryLook
from b200kit.report.document import counted
from b200kit.report.terminal.lines import Lines
from b200kit.run import console, places
from b200kit.store import database
from b200kit.store.local_disk import mount_of

SOUND, WRONG = 0, 1
_NEEDED = {"ssh": "openssh-client", "ssh-keygen": "openssh-client", "ssh-keyscan": "openssh-client"}
_OPTIONAL = {
    "gpg": "gnupg", "apt-ftparchive": "apt-utils", "skopeo": "skopeo", "uv": "uv",
}  # fmt: skip
"""What `b200 mirror` and `b200 lock` start, to the package that has it."""
_LEAST_FREE = 1 << 30
_FILES, _FILES_A_NODE = 256, 4
"""Open files of a run, and of each connection in it (inferred)."""


class PartState(StrEnum):
    """How a part of the controller is, as a person reads it."""

    OK = "ok"
    NOTE = "note"
    WRONG = "WRONG"


_TONES = {PartState.OK: "good", PartState.NOTE: "unknown", PartState.WRONG: "bad"}


@dataclass(frozen=True)
class Part:
    """One thing that was looked at: how it is, what was seen, what to do."""

    name: str
    standing: PartState
    seen: str
    advice: str = ""


@click.command(
    "doctor",
    cls=Command,
    exit_codes={SOUND: "nothing must be corrected", WRONG: "something must be; its line says how"},
)
@INVENTORY
@JSON
def command(inventory: Path | None, as_json: bool) -> int:
    """Look at this machine, the controller: programs, keys, the site, its file system, the clock.

    Nodes are not connected to, and nothing is changed; `b200 ready` looks at nodes.
    """
    site = places.site_of(inventory) if inventory else places.site()
    looks = dict(map(_look, [inventory] if inventory else _inventories(site)))
    parts = [part for look in _LOOKS for part in look()]
    parts += [*_site(site, looks), *_keys(looks), *_files(looks)]
    page = Lines(console.width(), console.coloured())
    for part in parts:
        label = f"{part.standing.value:<7}"
        page.hang(f"{part.name:<12}", (label, _TONES[part.standing]), text=part.seen)
        page.action(19, part.advice)
    console.document(unstructure(parts)) if as_json else console.out(*page.found, colour=True)
    return WRONG if any(part.standing is PartState.WRONG for part in parts) else SOUND


def _programs() -> Iterator[Part]:
    for name, package in _NEEDED.items():
        if not shutil.which(name):
            yield _part("programs", False, f"{name} is not installed", f"install {package}")
    if all(map(shutil.which, _NEEDED)):
        yield _part("programs", True, ", ".join(_NEEDED))
    if away := {name: package for name, package in _OPTIONAL.items() if not shutil.which(name)}:
        seen = f"not installed: {', '.join(away)}; only b200 mirror and b200 lock need them"
        yield Part("programs", PartState.NOTE, seen, f"install {', '.join(away.values())}")


def _clock() -> Iterator[Part]:
    sound = clock_synchronized()
    seen = "synchronized" if sound else "not synchronized: proofs and certificates need the time"
    yield _part("clock", sound, seen, "start a time service, such as systemd-timesyncd or chrony")


def _locale() -> Iterator[Part]:
    found = locale.getpreferredencoding(False)
    sound = found.lower().replace("-", "") == "utf8"
    yield _part("locale", sound, found, "export LANG=C.UTF-8")


_LOOKS: tuple[Callable[[], Iterator[Part]], ...] = (_programs, _clock, _locale)


def _inventories(site: Path | None) -> list[Path]:
    """The inventory that commands take, or all where they would ask which."""
    there = sorted((site / places.INVENTORIES).glob("*.py")) if site else []
    return [path for path in there if path.name == "prod.py"] or there


def _look(path: Path) -> tuple[Path, InventoryLook | InventoryRefused]:
    try:
        return path, site_problems.of_inventory(path)
    except InventoryRefused as error:
        return path, error


def _site(site: Path | None, looks: dict[Path, InventoryLook | InventoryRefused]) -> Iterator[Part]:
    """The site's inventories, and the directories where runs leave what they know."""
    if site is None:
        advice = f"cd to your site, name it in {places.SITE}, or make one: b200 init HOST..."
        yield Part("site", PartState.NOTE, "none here", advice)
        return
    if not looks:
        yield _part("site", False, f"{site} has no inventory", "b200 init HOST...")
    for path, look in looks.items():
        lines = look.lines if isinstance(look, InventoryRefused) else look.problems
        for line in lines:
            yield Part("site", PartState.WRONG, f"{path.name}: {line.removeprefix(f'{path}: ')}")
        if isinstance(look, InventoryLook) and not lines:
            yield _part("site", True, f"{path}: {counted(len(look.nodes), 'node')}")
    named = os.environ.get(database.VARIABLE)
    store = Path(named).resolve().parent if named else site.resolve()
    for folder in dict.fromkeys((site.resolve(), store)):
        there = next(one for one in (folder, *folder.parents) if one.is_dir())
        yield from _directory(there, has_store=folder == store)


def _directory(folder: Path, has_store: bool) -> Iterator[Part]:
    mount = mount_of(folder)
    free = shutil.disk_usage(folder).free
    room = f"{folder}: {mount.kind}, {free / 1e9:.1f} GB free"
    yield _part("disk", free >= _LEAST_FREE, room, "make room: reports and the store lie there")
    if not os.access(folder, os.W_OK | os.X_OK):
        yield _part("disk", False, f"{folder} cannot be written", "chown it, or name another site")
    if has_store and mount.is_shared:
        seen = f"{folder} is on {mount.kind}, where two controllers could write the store at once"
        advice = f"export {database.VARIABLE}=FILE, on a local disk of one controller"
        yield _part("store", False, seen, advice)


def _keys(looks: dict[Path, InventoryLook | InventoryRefused]) -> Iterator[Part]:
    """The keys by which ssh logs in, unless every node names its own."""
    known = [look for look in looks.values() if isinstance(look, InventoryLook)]
    if known and not any(look.keyless for look in known):
        return
    listed = subprocess.run(["ssh-add", "-l"], capture_output=True, text=True, check=False) if (
        shutil.which("ssh-add") and os.environ.get("SSH_AUTH_SOCK")
    ) else None  # fmt: skip
    agent = len(listed.stdout.splitlines()) if listed and listed.returncode == 0 else 0
    there = Path("~/.ssh").expanduser().glob("id_*")
    files = sorted(path.name for path in there if path.suffix != ".pub")
    seen = f"{agent} in the agent; in ~/.ssh: {', '.join(files) or 'none'}"
    yield _part(
        "ssh keys", bool(agent or files), seen,
        "ssh-add the key that nodes accept, or make one: ssh-keygen -t ed25519, then ssh-copy-id",
    )  # fmt: skip


def _files(looks: dict[Path, InventoryLook | InventoryRefused]) -> Iterator[Part]:
    """How many files a run may have open: each connection has some."""
    most = max((len(x.nodes) for x in looks.values() if isinstance(x, InventoryLook)), default=0)
    wanted, soft = _FILES + _FILES_A_NODE * most, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    sound = soft == resource.RLIM_INFINITY or soft >= wanted
    yield _part("open files", sound, f"at most {soft}", f"ulimit -n {wanted}: a run needs so many")


def _part(name: str, sound: bool, seen: str, advice: str = "") -> Part:
    return Part(name, PartState.OK, seen) if sound else Part(name, PartState.WRONG, seen, advice)
