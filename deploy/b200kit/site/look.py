"""Nodes as `b200 init` sees them: reached as ssh resolves them, held to trusted keys, read-only."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from b200kit.catalog import load
from b200kit.catalog.recognised import Unrecognised, on_bus
from b200kit.node.state.view import StateView
from b200kit.records.expected import observe_request
from b200kit.run import connection_fault, known_hosts
from b200kit.run.look import NotSeen, Place, observe
from b200kit.site.plan import Login, SeenNode, name_of
from b200kit.stages.support import operating_systems

# It comes to stand in a file that is executed here, and in a command that is shown: no more than a
# release is let through, whatever the node says.
_KERNEL = re.compile(r"[0-9][A-Za-z0-9.+~_-]{0,63}")
_OWN = ("~/.ssh/config", "/etc/ssh/ssh_config")


class NotUsable(Exception):
    """A node that no inventory is written for, in one line."""


def login(typed: str, ssh_config: str | None) -> tuple[Login, list[Path]]:
    """How ssh would get there, and the known_hosts files it would ask."""
    Place(typed)
    words = ["ssh", "-G", *(["-F", ssh_config] if ssh_config else []), "--", typed]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotUsable(
            f"{typed}: {(done.stderr.strip() or 'ssh gave no reason').splitlines()[-1]}"
        )
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key, []).append(value)
    keys = [key for key in found.get("identityfile", []) if Path(key).expanduser().is_file()]
    files = " ".join(found.get("userknownhostsfile", []) + found.get("globalknownhostsfile", []))
    way = Login(
        typed, found["hostname"][0], found["user"][0], int(found["port"][0]), next(iter(keys), None)
    )
    return way, [Path(file).expanduser() for file in shlex.split(files)]


def seen(
    way: Login, keys: tuple[str, ...], why: str, ssh_config: str | None, work: Path,
    password: str | None,
) -> SeenNode:  # fmt: skip
    """Look at a node that must answer with one of *keys*; raises NotUsable."""
    name = name_of(way.typed)
    config = _config(work / name.replace("/", "_"), way, keys, ssh_config)
    try:
        state = observe(Place(way.typed, str(config)), observe_request(), password)
        hardware = on_bus(state, load.load().hardware.values())
    except NotSeen as error:
        raise NotUsable(f"{name}: {error}: {connection_fault.advice(error.cause)}") from None
    except Unrecognised as error:
        raise NotUsable(f"{name}: {error}") from None
    return described(name, way, keys, why, state, hardware.name)


def described(
    name: str, way: Login, keys: tuple[str, ...], why: str, state: Mapping[str, Any], hardware: str
) -> SeenNode:  # fmt: skip
    """What an observation says that an inventory needs; raises NotUsable."""
    if refusal := operating_systems.refusal(state):
        raise NotUsable(f"{name}: {refusal}")
    system = operating_systems.system_of(state)
    assert system is not None  # noqa: S101 - refused above
    view = StateView(state)
    count = len(view.known_items("pci", "gpus"))
    kernel = view.known(str, "host", "kernel") or ""
    if not _KERNEL.fullmatch(kernel):
        raise NotUsable(f"{name}: the release of its kernel could not be read")
    return SeenNode(
        name, way, keys, why, system.key, hardware, kernel, f"{count} GPUs of {hardware}"
    )


def _config(
    folder: Path, way: Login, keys: Sequence[str], ssh_config: str | None
) -> Path:  # fmt: skip
    """The user's ssh_config with these keys in place of every known_hosts file."""
    folder.mkdir(parents=True)
    name = known_hosts.name_of(way.hostname, way.port)
    lines = "".join(f"{name} {key}\n" for key in keys)
    (folder / "known_hosts").write_text(lines)
    given = [Path(ssh_config)] if ssh_config else [Path(file).expanduser() for file in _OWN]
    includes = "".join(f"Include {file.resolve()}\n" for file in given if file.is_file())
    text = (
        f"UserKnownHostsFile {folder / 'known_hosts'}\nGlobalKnownHostsFile /dev/null\n"
        f"HostKeyAlias {name}\nHashKnownHosts no\n{includes}"
    )
    (folder / "config").write_text(text)
    return folder / "config"
