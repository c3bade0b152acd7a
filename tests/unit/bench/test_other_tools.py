"""What the other tools are given: the same states, and every byte of a file as it is."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from b200kit.node.state.drift import File, Package, Unit
from tests.bench import node_states, playbook, pyinfra_deploy, tools, usage
from tests.bench.node_states import States

CONTENT = b"a = '\"{{ secret }}\"'\n{% raw %}\\n #}\n\xff\x00"
PATH = "/etc/it's {{ here }}/a.conf"
STATES = States(
    files=(File(PATH, CONTENT, 0o600, "root:adm", secret=True), File("/etc/b", b"")),
    packages=(Package("driver", "1:5.0-1", hold=True), Package("kmod")),
    units=(Unit("a.service"), Unit("b.service", active=False), Unit("c.target")),
    left_out={},
)
REACHED = {"n1": {"ssh_hostname": "192.0.2.1", "ssh_key": "/k", "ssh_known_hosts_file": "/h"}}
SOURCES = Path("/sources")


class _Loader(yaml.SafeLoader):
    """Text that is no template becomes a pair, so that a test sees which is which."""


def _plain(loader: yaml.SafeLoader, node: yaml.Node) -> tuple[str, str]:
    assert isinstance(node, yaml.ScalarNode)
    return "plain", str(loader.construct_scalar(node))


_Loader.add_constructor("!unsafe", _plain)


def _tasks() -> dict[str, Any]:
    [play] = yaml.load(playbook.playbook(STATES, SOURCES), _Loader)
    assert play["gather_facts"] is False
    return {task["name"]: task for task in play["tasks"]}


def _calls() -> list[tuple[str, dict[str, Any]]]:
    """Operations of the deploy by name, with those arguments that are literals."""
    tree = ast.parse(pyinfra_deploy.deploy(STATES, SOURCES))
    return [
        (ast.unparse(call.func), {w.arg or "": _literal(w.value) for w in call.keywords})
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
    ]


def _literal(value: ast.expr) -> object:
    try:
        return ast.literal_eval(value)
    except ValueError:
        return ast.unparse(value)


def test_contents_reach_the_others_as_files_that_only_their_owner_reads(tmp_path: Path) -> None:
    node_states.write_sources(tmp_path, {"n1": STATES, "n2": STATES})
    for name in ("n1", "n2"):
        source = tmp_path / name / node_states.source(STATES.files[0])
        assert source.read_bytes() == CONTENT
        assert (source.stat().st_mode & 0o777, source.parent.stat().st_mode & 0o777) == (
            0o600,
            0o700,
        )
        assert len([*source.parent.iterdir()]) == len(STATES.files)
    for text in (playbook.playbook(STATES, SOURCES), pyinfra_deploy.deploy(STATES, SOURCES)):
        assert "secret" not in text


def test_playbook_takes_nothing_of_a_state_for_a_template() -> None:
    first, second = _tasks()["Files"]["loop"]
    assert first["path"] == ("plain", PATH)
    assert first["source"] == ("plain", node_states.source(STATES.files[0]))
    assert (first["owner"], first["group"]) == (("plain", "root"), ("plain", "adm"))
    assert (first["mode"], second["mode"]) == ("0600", "0644")


def test_playbook_holds_packages_holds_and_units() -> None:
    tasks = _tasks()
    packages = tasks["Packages"]["ansible.builtin.apt"]["name"]
    assert packages == [("plain", "driver=1:5.0-1"), ("plain", "kmod")]
    assert tasks["Holds"]["loop"] == [("plain", "driver")]
    states = [unit.get("state") for unit in tasks["Units"]["loop"]]
    assert states == ["started", None, "started"]


def test_deploy_holds_the_same() -> None:
    calls = _calls()
    put = [arguments for name, arguments in calls if name == "files.put"]
    assert [(a["dest"], a["mode"], a["user"], a["group"]) for a in put] == [
        (PATH, "600", "root", "adm"),
        ("/etc/b", "644", "root", "root"),
    ]
    [packages] = [arguments for name, arguments in calls if name == "apt.packages"]
    assert packages["packages"] == ["driver=1:5.0-1", "kmod"]
    units = [arguments for name, arguments in calls if name == "systemd.service"]
    assert [unit["running"] for unit in units] == [True, None, None]


def test_inventories_name_each_host_and_hold_it_to_its_key() -> None:
    hosts = json.loads(playbook.inventory(REACHED))["all"]["hosts"]
    assert hosts["n1"]["ansible_host"] == "192.0.2.1"
    assert "UserKnownHostsFile=/h" in hosts["n1"]["ansible_ssh_common_args"]
    [assigned] = ast.parse(pyinfra_deploy.inventory(REACHED)).body
    assert isinstance(assigned, ast.Assign)
    assert ast.literal_eval(assigned.value) == [("n1", {"ssh_user": "root", **REACHED["n1"]})]


def test_hosts_at_different_states_are_refused() -> None:
    other = replace(STATES, files=(replace(STATES.files[0], content=b"own"), STATES.files[1]))
    assert node_states.common({"n1": STATES, "n2": other}) == STATES
    with pytest.raises(ValueError, match="different"):
        node_states.common({"n1": STATES, "n2": replace(STATES, units=())})


def test_changes_are_counted_from_what_each_tool_prints() -> None:
    recap = "n1  : ok=4    changed=1    unreachable=0    failed=0    skipped=0\n"
    ansible = tools.ansible(Path("ansible-playbook"), SOURCES)
    assert ansible.changes(recap, ["n1"]) == 1
    with pytest.raises(RuntimeError, match="failed"):
        ansible.changes(recap, ["n1", "n2"])
    pyinfra = tools.pyinfra(SOURCES)
    assert pyinfra.changes("    Grand total   56      2         -       54", ["n1"]) == 2
    assert pyinfra.changes("    Grand total   56      -         -       56", ["n1"]) == 0
    with pytest.raises(RuntimeError, match="failed"):
        pyinfra.changes("    Grand total   56      2         1       53", ["n1"])


def test_what_a_command_left_running_counts_and_is_ended(tmp_path: Path) -> None:
    place = tmp_path / "id"
    stays = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    begun = f"while [ ! -s {place} ]; do sleep 0.01; done"
    leaves = f"setsid --fork {sys.executable} -c '{stays}' >{place}; {begun}; exit 3"
    command = ["sh", "-c", leaves]
    done = _usage(tmp_path / "out", command)
    figures = json.loads((tmp_path / "out").read_text())
    assert done == 3
    assert all(figures[key] >= 0 for key in ("wall_s", "cpu_s", "memory_mb"))
    assert not Path("/proc", place.read_text().strip()).exists()


def _usage(out: Path, command: list[str]) -> int:
    """In a process of its own, as it keeps every child of the one that it runs in."""
    asked = [sys.executable, "-m", usage.__name__, str(out), *command]
    return subprocess.run(asked, check=False, timeout=60).returncode
