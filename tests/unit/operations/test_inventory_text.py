"""What Python takes in an inventory's files without a word, and nobody means."""

from __future__ import annotations

from pathlib import Path

from b200kit.operations.inventory_text import faults, unlisted, unreadable
from tests.subtests import in_subtests


@in_subtests(
    ("text", "said"),
    [
        ('nodes = [("n01", {"ssh_port": 22, "ssh_port": 23})]', ["1: 'ssh_port' is given twice"]),
        ("smoke_always: true", ['1: "smoke_always: true" sets nothing; write smoke_always = ...']),
        ("if True:\n    replicas: 4", ['2: "replicas: 4" sets nothing; write replicas = ...']),
        ("replicas == 4", ['1: "replicas == 4" sets nothing; write replicas = ...']),
        ("smoke_always: bool = True", []),
        ('def named(rack: int) -> list[str]:\n    return ["n01", "n01"]', []),
        ("class Rack:\n    number: int\n", []),
        ("nodes = [", []),
    ],
)
def test_place_that_says_something_else_than_it_seems(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    path = tmp_path / "prod.py"
    path.write_text(text)
    assert list(faults(path)) == [f"{path}:{line}" for line in said]


@in_subtests(
    ("text", "lines"),
    [
        ('nodes = ("n01", {"ssh_port": 22})', [1]),
        ('rack = ["n01"]\nnodes = "n01", "n02"', [2]),
        ('_racks = "r1", "r2"', []),
        ('nodes = ([("n01", {})], {"replicas": 4})', []),
        ("nodes = ()", []),
        ("nodes = [", []),
    ],
)
def test_group_that_is_no_list_is_named(tmp_path: Path, text: str, lines: list[int]) -> None:
    path = tmp_path / "prod.py"
    path.write_text(text)
    assert [line.split(" ")[0] for line in unlisted(path)] == [f"{path}:{n}:" for n in lines]


def test_group_data_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "group_data").mkdir()
    (tmp_path / "group_data" / "prod.py").write_text('smoke = {"rate": 1.0, "rate": 2.0}\nx: 4\n')
    found = list(faults(tmp_path / "prod.py"))
    assert [line.rpartition("/")[2].split(" ")[0] for line in found] == ["prod.py:2:", "prod.py:1:"]


@in_subtests(
    ("content", "said"),
    [
        ("nodes = []\n".encode("utf-16"), ": it is no UTF-8 text (byte 0)"),
        ("# caf\xe9\n".encode("latin-1"), ": it is no UTF-8 text (byte 5)"),
        (b"# -*- coding: latin-1 -*-\n# caf\xe9\n", ": it is no UTF-8 text"),
        (b"\nnodes = [\n", ":2: "),
        (b"nodes = []\0\n", ""),
        ("nodes = []  # caf\xe9\n".encode(), None),
        (None, None),
    ],
)
def test_file_that_python_does_not_take_is_named(
    tmp_path: Path, content: bytes | None, said: str | None
) -> None:
    inventory, data = tmp_path / "prod.py", tmp_path / "group_data" / "nodes.py"
    data.parent.mkdir(exist_ok=True)
    for path, other in ((inventory, data), (data, inventory)):
        other.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        found = [*unreadable(inventory)]
        assert [line.startswith(f"{path}{said}") for line in found] == [True] * (said is not None)
