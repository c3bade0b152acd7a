"""Before the first connection: each node's data is typed, checked and rendered, its secrets found.

pyinfra executes an inventory, merges its data, and connects; deploy code runs only after that. So
an inventory calls `attach()`, which listens for the first connection about to be made and refuses
the whole run there, with one line a problem, while nothing has been touched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NoReturn

import click
from gevent import GreenletExit  # type: ignore[import-untyped]
from pyinfra.api.exceptions import ConnectorDataTypeError
from pyinfra.api.host import Host
from pyinfra.api.inventory import Inventory
from pyinfra.api.state import BaseStateCallback, State
from pyinfra.context import ctx_state

from b200kit.catalog import load
from b200kit.inventory import certificates, secrets
from b200kit.inventory import group as groups
from b200kit.inventory.keys import fleet
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.operations import connections, group_data, inventory_text, named_files, recorder
from b200kit.run import console, host_keys, places
from b200kit.run.node import Node
from b200kit.run.render import RenderError
from b200kit.run.session import RUN, entry
from b200kit.sizing.dimensions import ModelError
from b200kit.stages import pipeline
from b200kit.supply.locks import shipped


class Preflight(BaseStateCallback):
    """Checks all nodes when pyinfra is about to connect to the first."""

    @staticmethod
    def host_before_connect(state: State, host: Host) -> None:
        """Refuse the run unless every node of it is sound; then find out the host's key."""
        check_all(state)
        host_keys.certify(host)


_attached: list[State] = []
_refused: list[str] = []


def attach() -> None:
    """Listen to this process's pyinfra run; does nothing for commands that are not our entries."""
    if not entry() or not ctx_state.isset() or _attached:
        return
    state = ctx_state.get()
    _attached.append(state)
    connections.note_lists()
    path = Path(group_data.inventory())
    if unreadable := [*inventory_text.unreadable(path)]:
        _refuse(unreadable)
    if context := click.get_current_context(silent=True):
        context.call_on_close(partial(_refuse_end, state, path))
    recorder.note_interrupts(state)
    # What this run leaves belongs to the site of its inventory, wherever it was started.
    if path.is_file():
        os.environ[places.SITE] = str(places.site_of(path))
    _once_initialised(state, _listen)


def _refuse_end(state: State, inventory: Path) -> None:
    """Refuse what an inventory, or its group data, ends by itself: its code would be the run's."""
    ended = sys.exc_info()[1]
    if isinstance(ended, SystemExit) and not state.initialised and not _refused:
        _refuse([inventory_text.ended(inventory, ended.code)])


def _listen(state: State) -> None:
    foreign = (f"{group_data.inventory()}: {x}" for x in connections.without_ssh(state.inventory))
    if lines := connections.unmatched(state) or [*foreign]:
        _refuse(lines)
    state.add_callback_handler(Preflight())
    recorder.attach(state)


def _once_initialised(state: State, then: Callable[[State], None]) -> None:
    """pyinfra makes its list of callbacks in State.init, after the inventory was executed."""
    if state.initialised:
        then(state)
        return
    initialise = state.init

    def init(inventory: Inventory, *args: Any, **kwargs: Any) -> None:
        if unlisted := inventory_text.unlisted(Path(group_data.inventory())):
            _refuse(unlisted)
        try:
            initialise(inventory, *args, **kwargs)
        except ConnectorDataTypeError:  # of which it names neither node nor file
            hosts = ((host, connections.of_other_kinds(host)) for host in inventory)
            _refuse([*_lines((host, fault) for host, found in hosts for fault in found)])
        then(state)

    state.init = init  # type: ignore[method-assign]


def check_all(state: State) -> None:
    """Fill `RUN.nodes`, or print every problem and leave with exit code 1."""
    if RUN.nodes:
        return
    if _refused:
        # The first host of the run left with the exit code; the others just end.
        raise GreenletExit
    RUN.inventory = tuple(host.name for host in state.inventory)
    RUN.site = str(group_data.folder().parent)
    faults: list[tuple[Host, Problem]] = []
    groups = SpecCache(state)
    for host in state.inventory:
        # Those outside the limit, too: a drain connects to other nodes' gateways.
        faults += [(host, problem) for problem in host_keys.problems(host)]
        if state.is_host_in_limit(host):
            found = groups.node(host)
            if isinstance(found, Node):
                RUN.nodes[host.name] = found
            else:
                faults += [(host, problem) for problem in found]
    of_data, faults = group_data.misnamed(state.inventory, faults)
    inventory = group_data.inventory()
    of_lists = (f"{inventory}: {line}" for line in connections.of_lists(state.inventory))
    of_text = inventory_text.faults(Path(inventory))
    problems = [*of_lists, *of_text, *of_data, *_lines(faults), *_of_groups(state)]
    if problems:
        RUN.nodes.clear()
        _refuse(problems)


def _refuse(problems: list[str]) -> NoReturn:
    """Print every problem, each once, and leave with exit code 1."""
    _refused.extend(dict.fromkeys(problems))
    for line in _refused:
        end = "" if line.endswith("?") else "."
        console.err(f"{line}{end} Nothing was changed.")
    raise SystemExit(1)


class SpecCache:
    """Nodes of one run by their data: nodes of equal data are parsed, checked and rendered once."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._gateways = Gateways(state.inventory)
        self._specs: dict[str, NodeSpec | list[Problem]] = {}
        self._checked: dict[str, tuple[Node, list[Problem]]] = {}

    def node(self, host: Host) -> Node | list[Problem]:
        """The node of a host, or what is wrong with its data."""
        data = _data(host, self._gateways)
        key = repr(sorted(data.items(), key=lambda item: str(item[0])))
        if key not in self._specs:
            self._specs[key] = _parsed(data)
        parsed = self._specs[key]
        foreign = list(connections.problems(self._state, host))
        if isinstance(parsed, list):
            return [*foreign, *parsed]
        if problems := [*foreign, *connections.beside_sshd(host, parsed)]:
            return problems
        # A member of a group renders by its own name.
        key += host.name if parsed.group else ""
        if key not in self._checked:
            self._checked[key] = _checked(host.name, parsed)
        like, problems = self._checked[key]
        return problems or Node(host.name, parsed, dict(like.secrets), like.alike)


def _checked(name: str, spec: NodeSpec) -> tuple[Node, list[Problem]]:
    """A node of this spec, and what is wrong with what it names."""
    reprovisioning = RUN.entry == "reprovision.py"
    found, problems = secrets.resolve(spec, reprovisioning)
    node = Node(name, spec, found)
    problems += named_files.missing(spec)
    problems += named_files.away(spec) if reprovisioning else ()
    # Keys can be looked at only when every file is there, templates when each is as it should be.
    wrong = problems or [*named_files.wrong(spec), *certificates.problems(spec, found)]
    return node, wrong or list(_broken_templates(node))


def parsed(host: Host, changes: Mapping[str, object]) -> NodeSpec | list[Problem]:
    """The host's inventory data with *changes* on top, through the same checks."""
    found = _parsed(_data(host, Gateways(host.inventory), changes))
    return found if isinstance(found, list) else [*connections.beside_sshd(host, found)] or found


class Gateways:
    """The data of all hosts, for an endpoint before all of them: read once, and only for one."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every node that answers, as a fleet names it."""
        return iter(self._nodes)

    @cached_property
    def _nodes(self) -> list[dict[str, Any]]:
        return fleet.gateways((host.name, host.data.dict()) for host in self._inventory)


def _data(
    host: Host, gateways: Gateways, changes: Mapping[str, object] | None = None
) -> Mapping[str, Any]:
    own = fleet.filled(_own_data(host), gateways)
    return shipped.filled({**own, **(changes or {})})


def _parsed(data: Mapping[str, Any]) -> NodeSpec | list[Problem]:
    try:
        known = load.with_site_model(load.load(), data.get("model"), data.get("model_config_file"))
    except ModelError as error:
        return [Problem("model_config_file", str(error))]
    return parse(data, replace(known, site=str(group_data.folder().parent)))


def _of_groups(state: State) -> Iterator[str]:
    """What nodes that serve as one do not agree on, those of the group outside the run included."""
    if not any(node.spec.group for node in RUN.nodes.values()):
        return
    hosts = {host.name: host for host in state.inventory}
    gateways = Gateways(state.inventory)
    parsed = {name: _parsed(_data(host, gateways)) for name, host in hosts.items()}
    sound = {name: spec for name, spec in parsed.items() if isinstance(spec, NodeSpec)}
    for name in RUN.nodes:
        yield from _lines((hosts[name], problem) for problem in groups.between(sound, name))


def _own_data(host: Host) -> Mapping[str, Any]:
    return {
        name: value for name, value in host.data.dict().items() if not connections.is_pyinfras(name)
    }


def _broken_templates(node: Node) -> Iterator[Problem]:
    try:
        pipeline.desired(node)
    except RenderError as error:
        yield Problem("templates", str(error))


def _lines(faults: Iterable[tuple[Host, Problem]]) -> Iterator[str]:
    """One line for what is wrong in one place, with the names of all nodes that it is wrong for."""
    together: dict[tuple[str, Problem], list[str]] = {}
    for host, problem in faults:
        place = _origin(host, problem.key.split(".")[0])
        together.setdefault((place, problem), []).append(host.name)
    for (place, problem), names in together.items():
        more = f" and {len(names) - 2} more" if len(names) > 3 else ""
        nodes = ", ".join(names[:2] if more else names)
        yield f"{place}: {nodes}{more}: {problem.key}: {problem.message}"


def _origin(host: Host, key: str) -> str:
    """The file that says *key* for this host; where nothing says it, the inventory itself."""
    inventory, folder = group_data.inventory(), group_data.folder()
    if key in host.inventory.get_override_data():
        return "--data"
    if key in host.host_data:
        return inventory
    for group in reversed(host.groups):
        if key in host.inventory.get_group_data(group):
            return str(folder / f"{group}.py")
    return str(folder / "all.py") if key in host.inventory.get_data() else inventory
