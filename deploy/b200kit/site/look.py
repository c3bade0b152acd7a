"""Nodes as `b200 init` sees them: reached as ssh resolves them, held to trusted keys, read-only."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from b200kit.catalog import load
from b200kit.catalog.recognised import Unrecognised, on_bus
from b200kit.node.state.view import StateView
from b200kit.records.expected import observe_request
from b200kit.run import connection_fault
from b200kit.run.login import Login, jumps, parsed
from b200kit.run.look import NotSeen, observe
from b200kit.site.plan import PinnedHost, SeenNode, name_of
from b200kit.stages.support import operating_systems

# It comes to stand in a file that is executed here, and in a command that is shown: no more than a
# release is let through, whatever the node says.
_KERNEL = re.compile(r"[0-9][A-Za-z0-9.+~_-]{0,63}")


class NotUsable(Exception):
    """A node that no inventory is written for, in one line."""


def login(typed: str, ssh_config: str | None, jump: str | None) -> tuple[Login, list[Path]]:
    """How ssh would get there, and the known_hosts files it would ask."""
    asked = parsed(typed)
    words = ["ssh", "-G", *(["-F", ssh_config] if ssh_config else []), *asked.asked()]
    done = subprocess.run([*words, "--", asked.host], capture_output=True, text=True, check=False)
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
        found["hostname"][0], found["user"][0], int(found["port"][0]), next(iter(keys), None),
        jump=jump or next(iter(found.get("proxyjump", [])), None), ssh_config=ssh_config,
    )  # fmt: skip
    return way, [Path(file).expanduser() for file in shlex.split(files)]


def hops(way: Login) -> list[tuple[str, Login]]:
    """The jump hosts before a node and how ssh gets to each, nearest first, with their names."""
    found, before = [], ""
    for hop in jumps(way.jump or "none"):
        found.append((hop.host, login(hop.typed, way.ssh_config, before or None)[0]))
        before = f"{before},{hop.typed}".lstrip(",")
    return found


def held(way: Login, pins: Sequence[PinnedHost], folder: Path) -> Login:
    """The same, held to these keys alone."""
    folder.mkdir(parents=True, exist_ok=True)
    known = folder / "known_hosts"
    known.write_text("".join(f"{pin.name} {key}\n" for pin in pins for key in pin.keys))
    return replace(way, known_hosts=(str(known),))


def seen(
    typed: str, way: Login, pins: Sequence[PinnedHost], folder: Path, password: str | None
) -> SeenNode:  # fmt: skip
    """Look at a node that must answer with one of its keys, the last pin; raises NotUsable."""
    name = name_of(typed)
    try:
        state = observe(held(way, pins, folder), observe_request(), password)
        hardware = on_bus(state, load.load().hardware.values())
    except NotSeen as error:
        raise NotUsable(f"{name}: {error}: {connection_fault.advice(error.cause)}") from None
    except Unrecognised as error:
        raise NotUsable(f"{name}: {error}") from None
    return described(typed, way, pins, state, hardware.name)


def described(
    typed: str, way: Login, pins: Sequence[PinnedHost], state: Mapping[str, Any], hardware: str
) -> SeenNode:  # fmt: skip
    """What an observation says that an inventory needs; raises NotUsable."""
    name = name_of(typed)
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
        name, typed, way, tuple(pins), system.key, hardware, kernel, f"{count} GPUs of {hardware}"
    )
