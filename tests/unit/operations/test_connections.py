"""What the command line names: an inventory that is there, with nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyinfra.api import inventory as inventories

from b200kit.operations import connections
from b200kit.operations.connections import unlike, without_nodes
from tests.subtests import in_subtests


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with two inventories, and a third elsewhere."""
    for name in ("inventories/prod.py", "inventories/lab.py", "other/rack7.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("nodes = []")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@in_subtests(
    ("named", "nodes", "said"),
    [
        ("inventories/prod.py", 2, ""),
        ("inventories/prod.py", 0, "inventories/prod.py: no node is in it"),
        ("inventories/prd.py", 0, "did you mean inventories/prod.py?"),
        ("prod", 0, "did you mean inventories/prod.py?"),
        ("elsewhere/lab.py", 0, "did you mean inventories/lab.py?"),
        ("other/rack.py", 0, "did you mean other/rack7.py?"),
        ("other", 0, "other: there is no such inventory file"),
        ("inventories/dev17.py", 0, "inventories/dev17.py: there is no such inventory file"),
        # With --data ssh_hostname=... pyinfra takes any name for a host's.
        ("inventories/prd.py", 1, "did you mean inventories/prod.py?"),
        ("n01,n02", 2, ""),
        ("@machine/n01", 1, ""),
        ("", 1, ""),
    ],
)
def test_inventory_must_be_there_and_have_a_node(
    named: str, nodes: int, said: str, site: Path
) -> None:
    line = without_nodes(named, nodes)
    assert said in line
    assert bool(line) is bool(said)
    assert ("did you mean" in line) is ("did you mean" in said)


@in_subtests(
    ("lists", "said"),
    [
        ([["n01", "n01"]], ["n01 is given twice"]),
        # However a list is made: what is read is what pyinfra reads.
        ([[f"n{number:02}" for number in (1, 2, 2)]], ["n02 is given twice"]),
        (
            [[("n01", {"ssh_hostname": "10.0.0.1"})], [("n01", {"ssh_hostname": "10.0.0.2"})]],
            ["n01 has two values of ssh_hostname"],
        ),
        ([[("n01", {"ssh_hostname": "10.0.0.1"}), "n02"], ["n01", ("n02", {"replicas": 2})]], []),
        ([["n01 "]], ["'n01 ' is no name of a node"]),
        ([["n01,n02"]], ["'n01,n02' is no name of a node"]),
        ([["../n01"]], ["'../n01' is no name of a node"]),
        ([["@machine/n01", "rack_1.n-01", "fd00::1"]], []),
    ],
)
def test_no_node_is_said_twice(
    lists: list[list[Any]], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: dict[str, Any] = {f"rack{number}": (listed, {}) for number, listed in enumerate(lists)}
    with monkeypatch.context() as patch:
        patch.setattr(inventories, "extract_name_data", inventories.extract_name_data)
        patch.setattr(connections, "_lists", [])
        connections.note_lists()
        inventories.Inventory((["n01", "n02"], {}), **groups)
        assert list(connections.said_twice()) == said


def test_machine_that_is_not_reached_over_ssh_is_no_node() -> None:
    for nodes, wrong in ((["@local", "n01"], 1), (["n01"], 0), (["@dockerssh/n01:image"], 0)):
        lines = [*connections.without_ssh(inventories.Inventory((nodes, {})))]
        assert [line.startswith("@local: ") for line in lines] == [True] * wrong


@in_subtests(
    ("nodes", "said"),
    [
        ([("n01", {"ssh_hostname": "h"}), ("n02", {"ssh_hostname": "H"})], "n[01-02]"),
        (["n01", ("n02", {"ssh_hostname": "n01.", "ssh_port": 22})], "n[01-02]"),
        ([("n01", {"ssh_hostname": "::0:1"}), ("n02", {"ssh_hostname": "::1"})], "n[01-02]"),
        (["n01", ("n02", {"ssh_hostname": "n01", "ssh_port": 2222})], ""),
        # Behind other hosts it is another machine.
        ([(f"n{n}", {"ssh_hostname": "h", "ssh_proxy_jump": f"j{n}"}) for n in (1, 2)], ""),
    ],
)  # fmt: skip
def test_two_nodes_at_one_address_are_one_machine(nodes: list[Any], said: str) -> None:
    found = list(connections.at_one_address(inventories.Inventory((nodes, {}))))
    assert [line.split(" ")[0] for line in found] == [said] * bool(said)


@in_subtests(
    ("name", "value", "right"),
    [
        ("ssh_port", 22, True),
        ("ssh_port", "22", False),
        ("ssh_port", 0, False),
        ("ssh_port", 65536, False),
        ("ssh_port", True, False),
        ("ssh_user", "root", True),
        ("ssh_user", 0, False),
        ("ssh_key", Path("/keys/id"), True),
        ("ssh_forward_agent", "no", False),
        ("ssh_forward_agent", False, True),
        ("ssh_connect_retries", 2.5, False),
        ("ssh_connect_retry_min_delay", 1, True),
        ("ssh_paramiko_connect_kwargs", ["timeout"], False),
        ("ssh_hostname", None, True),
        ("_sudo", True, True),
        ("_sudo", "no", False),
        ("_timeout", "10", False),
    ],
)
def test_keys_of_pyinfra_have_its_types(name: str, value: object, right: bool) -> None:
    assert bool(unlike(name, value)) is not right
