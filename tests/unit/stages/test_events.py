"""Events on a node: what is laid down for whoever is told, and nothing where nobody is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.status.hook import CONFIG
from b200kit.stages import events
from tests.unit.nodes import look, make, planned, settled
from tests.unit.specs import CATALOGUE, data

COMMAND = {"command": ["/usr/local/bin/notify", "a-word"], "deadline_s": 7}


def test_without_a_command_there_is_neither_file_nor_unit(tmp_path: Path) -> None:
    _, machine = settled(tmp_path)
    assert not [path for path in machine.files if "hook" in path]


def test_a_command_is_told_by_a_unit_and_its_words_are_roots_alone(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, events=COMMAND)
    assert machine.is_active(events.UNIT)
    document = json.loads(machine.text(str(CONFIG)))
    assert (document["command"], document["deadline_s"]) == (COMMAND["command"], 7.0)
    assert machine.files[str(CONFIG)]["mode"] == 0o600
    texts = [path for path in machine.files if path.startswith(("/etc/", "/var/"))]
    assert [path for path in texts if "a-word" in machine.text(path)] == [str(CONFIG)]
    assert planned(node, "events") == []


def test_who_is_not_to_be_told_any_more_is_not(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, events=COMMAND)
    object.__setattr__(node, "spec", node.spec.replace(events=None))
    make(node, "events")
    look(node)
    assert planned(node, "events") == []
    assert not [path for path in machine.files if "hook" in path]
    assert machine.ran(f"disable --now {events.UNIT}")


@pytest.mark.parametrize("command", [[], ["notify"]])
def test_a_command_that_nothing_would_find_is_refused(command: list[str]) -> None:
    found = parse(data(events={"command": command}), CATALOGUE)
    assert not isinstance(found, NodeSpec)
    assert [problem.key for problem in found] == ["events.command"]
