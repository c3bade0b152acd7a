"""What an engine or a group cannot be is refused by the real CLI, before any connection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake.fleet import Fleet
from tests.messages import assert_message

MEMBERS = {"n01": "10.1.0.1", "n02": "10.1.0.2"}
GROUP = {"name": "a", "members": MEMBERS, "head": "n01", "interface": "ens1"}


@pytest.fixture
def pair(tmp_path: Path) -> Fleet:
    """Two bare machines."""
    fleet = Fleet(tmp_path / "site")
    fleet.add("n01")
    fleet.add("n02")
    return fleet


def refused(fleet: Fleet, *arguments: str, **data: Any) -> list[str]:
    """The lines of a run that was refused; no machine was asked anything."""
    words = [word for key, value in data.items() for word in ("--data", f"{key}={value}")]
    run = fleet.run("b200.py", *arguments, *words)
    assert run.code == 1, run.stdout + run.stderr
    assert all(fleet.machine(name).log == [] for name in fleet.names)
    return [line for line in run.stderr.splitlines() if "Nothing was changed" in line]


def test_member_that_the_inventory_lacks_is_named_also_with_a_limit(pair: Fleet) -> None:
    group = json.dumps(GROUP | {"members": MEMBERS | {"n03": "10.1.0.3"}})
    asked = {"group": group, "replicas": 1, "tensor_parallel": 8}
    [line] = refused(pair, "--limit", "n01", **asked)
    assert_message(line, TMP=pair.folder)


def test_engine_that_the_requirements_do_not_install_is_refused(pair: Fleet) -> None:
    (pair.folder / "engine.txt").write_text("# python: 3.12\nvllm==0.33.0 --hash=sha256:00\n")
    [line] = refused(pair)
    assert "n01, n02: engine.version: 0.32.0, but" in line
    assert "vllm==0.33.0" in line
