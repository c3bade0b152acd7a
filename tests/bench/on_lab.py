"""b200kit, ansible-core and plain pyinfra beside each other on live nodes of the lab.

All three are given the same states of the same nodes, of which b200kit holds more: what it alone
holds is counted. They find nothing to change, and then one file that was altered on each node.
A connection is new in each run. Commands are the sessions that the node's own sshd logged, bytes
those of the node's cable with all headers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tests.lab as lab
from b200kit.report.files import stored
from tests.bench import node_states, playbook, pyinfra_deploy, tools
from tests.bench.figures import Missing, show
from tests.bench.node_states import States
from tests.bench.tools import Tool
from tests.e2e import driving
from tests.lab import inventory, live, own_network
from tests.lab.paths import LabError, host_name, lab_paths
from tests.lab.state import read_state
from tests.lab.supply import debian_package
from tests.lab.supply.systems import system_of

SIZES = (1, 2, 4)
TRIES = 2
"""Of runs without a change: the quicker one is shown."""
ANSIBLE = "ansible-core==2.19.14"
"""The last series that runs with our oldest Python, 3.11."""
ALTERED = "/etc/needrestart/conf.d/60-b200kit.conf"
"""A file that notifies nothing: to write it again is the whole change."""
# What Ansible's apt module imports on a node, and what that needs.
_PYTHON_APT = ("python3-apt", "python-apt-common", "distro-info-data")


def main() -> None:
    """Bring live nodes up, measure, and take them down again."""
    if os.geteuid() != 0:
        raise Missing("simulated nodes need root")
    with tempfile.TemporaryDirectory(prefix="b200-") as folder:
        program = _ansible(Path(folder) / "ansible")
        try:
            names = _nodes()
            _prepare(names, Path(folder) / "debs")
            _measure(names, Path(folder), program)
        finally:
            lab.down()


def _ansible(environment: Path) -> Path:
    """ansible-playbook in an environment of its own."""
    python = str(environment / "bin" / "python")
    steps = (
        [sys.executable, "-m", "venv", str(environment)],
        [python, "-m", "pip", "install", ANSIBLE],
    )
    for step in steps:
        done = subprocess.run(
            step, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise Missing(f"{ANSIBLE} cannot be installed: {done.stderr.strip()[-200:]}")
    return environment / "bin" / "ansible-playbook"


def _nodes() -> list[str]:
    """Live nodes, each as a run of ours leaves it."""
    try:
        live.up_live(max(SIZES))
    except LabError as error:
        raise Missing(f"no lab: {error}") from error
    return [host_name(number) for number in range(1, max(SIZES) + 1)]


def _prepare(names: Sequence[str], folder: Path) -> None:
    """Give the nodes what Ansible's apt module imports; they cannot reach where it comes from."""
    paths = lab_paths()
    try:
        with own_network.outside():
            files = debian_package.download(folder, system_of(paths), "main", _PYTHON_APT)
    except LabError as error:
        raise Missing(f"{_PYTHON_APT[0]} for the nodes: {error}") from error
    for name in names:
        for file in files:
            shutil.copy(file, paths.host(name) / "root" / "root")
        done = lab.run(name, ["sh", "-c", "dpkg --install /root/*.deb && rm /root/*.deb"])
        if done.returncode != 0:
            raise RuntimeError(f"{name}: {done.stderr[-200:]}")


def _measure(names: Sequence[str], folder: Path, program: Path) -> None:
    seen = _settled()
    held = _held(names, seen)
    with _written(held, folder) as work:
        beside = [
            tools.ours("check.py"),
            tools.ours("b200.py"),
            tools.ansible(program, work),
            tools.pyinfra(work),
        ]
        _say(node_states.common(held))
        for size in SIZES:
            for tool in beside:
                _show(tool, names[:size], folder, changes=0)
        for tool in beside[1:]:
            for name in names:
                driving.on(name, f"echo '# altered' >> {ALTERED}")
            _show(tool, names, folder, changes=len(names))


def _settled() -> dict[str, Any]:
    """The hosts of a report, after a run of ours that may still measure what it serves."""
    kept = tools.ours("b200.py").environment
    for _ in range(2):
        done = driving.deploy("b200.py", **kept)
        if done.code != 0 or done.directory is None:
            raise RuntimeError(f"the nodes are not live: {done.said[-400:]}")
        names = done.summary["hosts"]
        hosts = {name: stored(done.directory / f"{name}.json.gz") for name in names}
        shutil.rmtree(done.directory)
    return hosts


def _held(names: Sequence[str], seen: Mapping[str, Any]) -> dict[str, States]:
    state = read_state(lab_paths())
    hosts = {host["name"]: host for host in state["hosts"]}
    return {name: node_states.of_node(state, hosts[name], seen[name]) for name in names}


@contextmanager
def _written(held: Mapping[str, States], folder: Path) -> Iterator[Path]:
    """A directory with playbook, deploy, inventories and sources, which hold the nodes' keys."""
    work = folder / "w"
    work.mkdir(mode=0o700)
    (work / "sources").mkdir(mode=0o700)
    node_states.write_sources(work / "sources", held)
    states, hosts = node_states.common(held), read_state(lab_paths())
    reached = {host["name"]: inventory.connection(hosts, host) for host in hosts["hosts"]}
    texts = {
        playbook.PLAYBOOK: playbook.playbook(states, work / "sources"),
        playbook.INVENTORY: playbook.inventory(reached),
        playbook.CONFIGURATION: playbook.configuration(work, max(SIZES)),
        pyinfra_deploy.DEPLOY: pyinfra_deploy.deploy(states, work / "sources"),
        pyinfra_deploy.INVENTORY: pyinfra_deploy.inventory(reached),
    }
    for name, text in texts.items():
        (work / name).write_text(text)
    try:
        yield work
    finally:
        shutil.rmtree(work)


def _say(states: States) -> None:
    """What each tool holds, and how."""
    parts = {"files": states.files, "packages": states.packages, "holds": states.holds,
             "units": states.units}  # fmt: skip
    show(
        "states of a node, held by all", total=states.count, **{k: len(v) for k, v in parts.items()}
    )
    show("held by b200kit alone", **states.left_out)
    own = sum(unit.active and not pyinfra_deploy.runs(unit) for unit in states.units)
    show("not held by pyinfra", running_targets=own)
    show(ANSIBLE, run=playbook.AT_ITS_BEST)


def _show(tool: Tool, names: Sequence[str], folder: Path, changes: int) -> None:
    tries = [tools.measured(tool, names, folder) for _ in range(1 if changes else TRIES)]
    if wrong := [cost.changes for cost in tries if cost.changes != changes]:
        raise RuntimeError(f"{tool.name} made {wrong[0]} changes where {changes} were to make")
    cost = min(tries, key=lambda cost: cost.wall_s)
    word = "node" if len(names) == 1 else "nodes"
    show(f"{tool.name}, {len(names)} {word}", **asdict(cost))
