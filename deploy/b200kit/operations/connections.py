"""What an inventory and a command line say to pyinfra itself: its own keys, key file and hosts.

pyinfra takes any key that it does not know for data of the site, meets a missing key file only when
it connects, and an inventory that is not there or a `--limit` that fits no host is a run over none,
which ends well.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatch
from os import PathLike
from pathlib import Path
from typing import Any, get_type_hints

import click
from paramiko.ssh_exception import SSHException
from pyinfra.api import inventory as inventories
from pyinfra.api.arguments import all_global_arguments
from pyinfra.api.exceptions import NoGroupError, PyinfraError
from pyinfra.api.host import Host
from pyinfra.api.state import State
from pyinfra.connectors.chroot import ChrootConnector
from pyinfra.connectors.docker import DockerConnector
from pyinfra.connectors.local import LocalConnector
from pyinfra.connectors.ssh import ConnectorData, connector_data_meta
from pyinfra.connectors.ssh_util import get_private_key

from b200kit.inventory import rules
from b200kit.inventory.keys.problem import Problem, did_you_mean, show
from b200kit.inventory.spec import NodeSpec
from b200kit.report.names import hostlist
from b200kit.run.host_keys import OVER_SSH
from b200kit.run.login import JUMP, jumps, of_data

_SSH = "ssh_"


def is_pyinfras(name: object) -> bool:
    """Whether a key of inventory data is pyinfra's; every other one must be ours."""
    return str(name).startswith((_SSH, "_"))


_WORDS = {
    str: "a string", int: "a whole number", float: "a number", bool: "True or False",
    dict: "a mapping",
}  # fmt: skip
_NOT_OVER_SSH = (LocalConnector, ChrootConnector, DockerConnector)
_lists: list[list[tuple[str, Mapping[str, Any]]]] = []
_ARGUMENTS = dict(all_global_arguments())
_KINDS: dict[str, Any] = {
    **get_type_hints(ConnectorData),
    **{name: kind for name, kind in _ARGUMENTS.items() if is_pyinfras(name) and kind in _WORDS},
    JUMP: str,
}


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}|@\S+")
"""A host name, or a host of a connector of pyinfra's."""


def note_lists() -> None:
    """Keep what each list of nodes says: pyinfra takes the last of what they say, without a word.

    It asks one function of its own for what is in a list, however the inventory made it.
    """
    read = inventories.extract_name_data

    def noted(names: list[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        _lists.append([*read(names)])
        return iter(_lists[-1])

    inventories.extract_name_data = noted


def of_lists(hosts: Iterable[Host]) -> Iterator[str]:
    """A line for each fault of the lists of nodes that were read since `note_lists`."""
    yield from said_twice()
    yield from at_one_address(hosts)


def said_twice() -> Iterator[str]:
    """A line for each node that is in a list twice, or of which two lists say different things."""
    of: dict[str, dict[str, Any]] = {}
    for listed in _lists:
        times = Counter(name for name, _ in listed)
        yield from (f"{name} is given twice" for name, count in times.items() if count > 1)
        yield from (f"{name!r} is no name of a node" for name in times if not _is_name(name))
        for name, data in listed:
            known = of.setdefault(name, {})
            if other := next((key for key in data if known.get(key, data[key]) != data[key]), None):
                yield f"{name} has two values of {other}"
            known.update(data)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(_NAME.fullmatch(name))


def without_ssh(hosts: Iterable[Host]) -> Iterator[str]:
    """A line for nodes that are this machine, or a folder or container on it."""
    names = [host.name for host in hosts if issubclass(host.connector_cls, _NOT_OVER_SSH)]
    if names:
        why = "a node is changed over SSH; `b200 check --local` looks at this machine"
        yield f"{hostlist(names)}: {why}"


def at_one_address(hosts: Iterable[Host]) -> Iterator[str]:
    """A line for each address that several nodes are reached at: they are one machine."""
    of: dict[tuple[str, int, str | None], list[str]] = {}
    for host in hosts:
        if issubclass(host.connector_cls, OVER_SSH):
            login = of_data(host.name, host.data)
            of.setdefault((_place(login.host), login.port or 22, login.jump), []).append(host.name)
    for (address, port, _), names in of.items():
        if len(names) > 1:
            yield f"{hostlist(names)} have one address, {address} port {port}"


def _place(host: str) -> str:
    """A name or an address in its one form."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower().rstrip(".")


def problems(state: State, host: Host) -> Iterator[Problem]:
    """Keys that pyinfra passes over, a private key that it cannot load."""
    data = host.data.dict()
    yield from of_other_kinds(host)
    for name in filter(is_pyinfras, data):
        if name.startswith(_SSH) and name not in (*connector_data_meta, JUMP):
            nearest = did_you_mean(name, [*connector_data_meta, JUMP])
            yield Problem(name, f"pyinfra has no such key{nearest}")
        # One that is near none of pyinfra's is a variable of the file's own.
        private = name.startswith("_") and name not in _ARGUMENTS
        if private and (nearest := did_you_mean(name, _ARGUMENTS)):
            yield Problem(name, f"pyinfra has no such key{nearest}")
    if isinstance(way := data.get(JUMP), str):
        try:
            jumps(way)
        except ValueError as error:
            yield Problem(JUMP, str(error))
    if filename := data.get("ssh_key"):
        try:
            get_private_key(state, str(filename), data.get("ssh_key_password") or "")
        except (PyinfraError, SSHException, OSError, ValueError) as error:
            yield Problem("ssh_key", " ".join(str(error).split()))


def beside_sshd(host: Host, spec: NodeSpec) -> Iterator[Problem]:
    """Ports of the inventory that the node's sshd has, where SSH reaches it."""
    return rules.beside_sshd(spec, host.data.get("ssh_port") or 22)


def of_other_kinds(host: Host) -> Iterator[Problem]:
    """Values of pyinfra's keys that are not of the kind that it wants there."""
    for name, value in host.data.dict().items():
        if name in _KINDS and (wanted := unlike(name, value)):
            shown = type(value).__name__ if "password" in name else show(value)
            yield Problem(name, f"must be {wanted}, not {shown}")


def unlike(name: str, value: object) -> str:
    """What pyinfra's own annotations want there instead; empty where it is that."""
    kind = _KINDS[name]
    if name == "ssh_port":
        port = type(value) is int and 1 <= value <= 65535
        return "" if port else "a whole number from 1 to 65535"
    taken = {str: (str, PathLike), float: (int, float)}.get(kind, kind)
    right = isinstance(value, taken) and isinstance(value, bool) is (kind is bool)
    return "" if value is None or right else _WORDS[kind]


def unmatched(state: State) -> list[str]:
    """A line for each name on the command line that fits no node; or one where no node is left."""
    context = click.get_current_context(silent=True)
    options = context.params if context else {}
    if line := without_nodes(str(options.get("inventory", "")), len(state.inventory)):
        return [line]
    known = [*(host.name for host in state.inventory), *state.inventory.groups]
    lines = [
        f"--{option} {pattern}: no such node or group{did_you_mean(str(pattern), known)}"
        for option in ("limit", "exclude")
        for pattern in options.get(option) or ()
        if not _fits(state, str(pattern))
    ]
    if state.limit_hosts == [] and not lines:
        return ["no node is left to work on: see --limit, --exclude and the inventory"]
    return lines


def without_nodes(named: str, nodes: int) -> str:
    """What is wrong with an inventory that is no file, or that has no node; empty for any other."""
    if Path(named).is_file():
        return "" if nodes else f'{named}: no node is in it; a list names them: nodes = ["n01"]'
    if nodes and not named.endswith(".py"):
        return ""  # hosts by their names
    folders = (Path("inventories"), Path(named).parent)
    there = {path.stem: path for folder in folders for path in folder.glob("*.py")}
    close = get_close_matches(Path(named).stem, there, n=1)
    nearest = f"; did you mean {there[close[0]]}?" if close else ""
    return f"{named}: there is no such inventory file{nearest}"


def _fits(state: State, pattern: str) -> bool:
    try:
        return bool(state.inventory.get_group(pattern))
    except NoGroupError:
        return any(fnmatch(host.name, pattern) for host in state.inventory)
