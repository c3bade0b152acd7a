"""Before the first connection: each node's data is typed, checked and rendered, its secrets found.

pyinfra executes an inventory, merges its data, and connects; deploy code runs only after that. So
an inventory calls `attach()`, which listens for the first connection about to be made and refuses
the whole run there, with one line a problem, while nothing has been touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from gevent import GreenletExit  # type: ignore[import-untyped]
from pyinfra.api.host import Host
from pyinfra.api.state import BaseStateCallback, State
from pyinfra.context import ctx_state

from b200kit import engines
from b200kit.catalog import load
from b200kit.converge.stage import nominal_layout
from b200kit.inventory import engine_rules, openpgp, secrets
from b200kit.inventory import group as groups
from b200kit.inventory.keys import fleet, reprovision
from b200kit.inventory.keys.parts import Repository
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.source import Mirror
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.client.dataset import dataset
from b200kit.operations import connections, group_data, recorder
from b200kit.run import console, host_keys
from b200kit.run.node import Node
from b200kit.run.render import RenderError
from b200kit.run.session import RUN, entry
from b200kit.serving import compile_tools
from b200kit.sizing.dimensions import ModelError
from b200kit.stages import pipeline
from b200kit.supply.locks import shipped
from b200kit.supply.models import hub_model


class Preflight(BaseStateCallback):
    """Checks all nodes when pyinfra is about to connect to the first."""

    @staticmethod
    def host_before_connect(state: State, host: Host) -> None:
        """Refuse the run unless every node of it is sound."""
        del host
        check_all(state)


_attached: list[State] = []
_refused: list[str] = []


def attach() -> None:
    """Listen to this process's pyinfra run; does nothing for commands that are not our entries."""
    if not entry() or not ctx_state.isset() or _attached:
        return
    state = ctx_state.get()
    _attached.append(state)
    _once_initialised(state, _listen)


def _listen(state: State) -> None:
    if lines := connections.unmatched(state):
        _refuse(lines)
    state.add_callback_handler(Preflight())
    recorder.attach(state)


def _once_initialised(state: State, then: Callable[[State], None]) -> None:
    """pyinfra makes its list of callbacks in State.init, after the inventory was executed."""
    if state.initialised:
        then(state)
        return
    initialise = state.init

    def init(*args: Any, **kwargs: Any) -> None:
        initialise(*args, **kwargs)
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
    faults: list[tuple[Host, Problem]] = []
    for host in state.inventory:
        # Those outside the limit, too: a drain connects to other nodes' gateways.
        faults += [(host, problem) for problem in host_keys.problems(host)]
        if state.is_host_in_limit(host):
            found = _node(state, host)
            if isinstance(found, Node):
                RUN.nodes[host.name] = found
            else:
                faults += [(host, problem) for problem in found]
    of_data, faults = group_data.once(faults)
    problems = [*of_data, *_lines(faults), *_of_groups(state)]
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


def _node(state: State, host: Host) -> Node | list[Problem]:
    parsed = _spec(host)
    foreign = list(connections.problems(state, host))
    if isinstance(parsed, list):
        return [*foreign, *parsed]
    if foreign:
        return foreign
    found, problems = secrets.resolve(parsed, reprovisioning=RUN.entry == "reprovision.py")
    node = Node(name=host.name, spec=parsed, secrets=found)
    problems += missing_files(parsed)
    # Keys can be looked at only when every file is there, templates when each is as it should be.
    return problems or list(_wrong_files(parsed)) or list(_broken_templates(node)) or node


def parsed(host: Host, changes: Mapping[str, object]) -> NodeSpec | list[Problem]:
    """The host's inventory data with *changes* on top, through the same checks."""
    return _spec(host, changes)


def _spec(host: Host, changes: Mapping[str, object] | None = None) -> NodeSpec | list[Problem]:
    every = ((other.name, other.data.dict()) for other in host.inventory)
    data = shipped.filled({**fleet.filled(_own_data(host), every), **(changes or {})})
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
    parsed = {name: _spec(host) for name, host in hosts.items()}
    sound = {name: spec for name, spec in parsed.items() if isinstance(spec, NodeSpec)}
    for name in RUN.nodes:
        yield from _lines((hosts[name], problem) for problem in groups.between(sound, name))


def _own_data(host: Host) -> Mapping[str, Any]:
    return {
        name: value for name, value in host.data.dict().items() if not connections.is_pyinfras(name)
    }


def missing_files(spec: NodeSpec) -> Iterator[Problem]:
    """Files of the controller that the inventory names and nobody can read."""
    named = [] if spec.engine.image else [("engine.requirements", spec.engine.requirements)]
    named += [(f"{key}.key", r.key) for key, r in _repositories(spec)]
    named += [("fleet.ca_file", spec.fleet.ca_file)] if spec.fleet and spec.fleet.ca_file else []
    named += [(f"system_prompts.{n}", path) for n, path in enumerate(spec.system_prompts)]
    named += reprovision.files(spec)
    yield from hub_model.problems(spec)
    for key, path in named:
        try:
            Path(path).read_bytes()
        except OSError as error:
            remedy = _remedy(spec, key, path) if isinstance(error, FileNotFoundError) else ""
            message = f"{path} cannot be read on the controller: {error.strerror}"
            yield Problem(key, remedy or message)
    yield from _unusable_prompts(spec)
    for number, path in enumerate(spec.system_prompts):
        with contextlib.suppress(OSError):
            text = Path(path).read_text("utf-8", "replace")
            if not text.strip() or "\ufffd" in text:
                yield Problem(f"system_prompts.{number}", f"{path} is empty or is no UTF-8 text")


def _unusable_prompts(spec: NodeSpec) -> Iterator[Problem]:
    try:
        dataset.source(spec.smoke.prompts)
    except OSError as error:
        message = f"{spec.smoke.prompts} cannot be read on the controller: {error.strerror}"
        yield Problem("smoke.prompts", message)
    except ValueError as error:
        yield Problem("smoke.prompts", str(error))


def _remedy(spec: NodeSpec, key: str, path: str) -> str:
    """The command that makes a file which is not there; empty where there is none."""
    if key == "engine.requirements":
        return shipped.missing(spec.engine)
    if key == "source.key":
        return f"{path} is not there: b200 mirror key --to {Path(path).parent}"
    preset = {each.name for each in load.load().repositories.get(spec.system or "", ())}
    if key.startswith("repositories.") and Path(path).stem in preset:
        return f"{path} is not there: b200 keys {spec.system} --to {Path(path).parent}"
    return ""


def _broken_templates(node: Node) -> Iterator[Problem]:
    try:
        for stage in pipeline.stages():
            stage.desired(node, nominal_layout(node))
    except RenderError as error:
        yield Problem("templates", str(error))


def _wrong_files(spec: NodeSpec) -> Iterator[Problem]:
    """Files that say something else than the inventory does."""
    yield from wrong_keys(spec)
    if not spec.engine.image:
        lock = Path(spec.engine.requirements).read_text(errors="replace")
        if message := engine_rules.unlike_lock(engines.get(spec.engine), spec.engine, lock):
            make = shipped.command(spec.engine)
            yield Problem("engine.version", f"{message}: {make}" if make else message)
        if message := compile_tools.uncompilable(spec, lock.encode()):
            yield Problem("engine.requirements", f"{spec.engine.requirements} {message}")
        yield from compile_tools.unanswerable(spec, lock.encode())
        if spec.engine.kind != "stand-in" and not engine_rules.python_of(lock):
            wanted = 'add a line such as "# python: 3.12"'
            message = f"{spec.engine.requirements} does not name the Python it is for; {wanted}"
            yield Problem("engine.requirements", message)


def _repositories(spec: NodeSpec) -> Iterator[tuple[str, Repository]]:
    """Each repository of the node by the key of the inventory that says it."""
    for number, repository in enumerate(spec.repositories):
        yield (
            "source" if isinstance(spec.source, Mirror) else f"repositories.{number}",
            repository,
        )


def wrong_keys(spec: NodeSpec) -> Iterator[Problem]:
    """Keys of repositories that are others than the inventory pins."""
    for key, repository in _repositories(spec):
        try:
            actual = openpgp.fingerprints(Path(repository.key).read_text(errors="replace"))
        except ValueError as wrong:
            yield Problem(f"{key}.key", f"{repository.key} {wrong}")
            continue
        if repository.fingerprint.upper() not in actual:
            there = f"{repository.key} has {', '.join(actual)}"
            message = f"{there}, the inventory pins {repository.fingerprint}"
            yield Problem(f"{key}.fingerprint", message)


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
