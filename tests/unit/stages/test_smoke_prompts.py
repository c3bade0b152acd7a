"""What the inventory asks the smoke test to send, on its way to the node."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client.prompts import PromptSource, WordList
from b200kit.node.client.serving_config import load
from b200kit.node.lib.documents import to_bytes
from b200kit.node.state.serving import Serving
from b200kit.operations import named_files
from b200kit.serving import smoke_prompts
from b200kit.stages import serving, smoke
from tests.messages import assert_message
from tests.unit.nodes import connected, look, planned, settled, spec

PROMPTS = "/etc/b200kit/prompts.jsonl"


def written(folder: Path, *prompts: str) -> str:
    """The path of a file of prompts on the controller."""
    path = folder / "asked.jsonl"
    path.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    return str(path)


def read_on_node(folder: Path, document: Serving, **change: Any) -> PromptSource:
    """What the node program makes of a serving.json."""
    bare = replace(document, smoke=replace(document.smoke, **change), api_key_file=None)
    path = folder / "serving.json"
    path.write_bytes(to_bytes(bare))
    return load(path).prompts


def test_prompts_of_the_site_are_roots_alone_and_read_by_the_node_program(tmp_path: Path) -> None:
    keys = {"prompts": written(tmp_path, "why?", "how?")}
    node, machine = settled(tmp_path, smoke=keys)
    (file,) = smoke_prompts.files(node)
    assert (file.path, file.mode) == (PROMPTS, 0o600)
    assert machine.text(PROMPTS).splitlines() == ['"why?"', '"how?"']
    there = tmp_path / "there.jsonl"
    there.write_text(machine.text(PROMPTS))
    document = serving.serving_document(node, node.layout())
    found = read_on_node(tmp_path, document, prompts=str(there))
    assert document.smoke.prompts == PROMPTS
    assert document.smoke.prompts_name == found.name


def test_other_prompts_in_the_same_file_are_measured_again(tmp_path: Path) -> None:
    keys = {"prompts": written(tmp_path, "why?")}
    node, machine = settled(tmp_path, smoke=keys)
    before = smoke.fingerprint(node)
    written(tmp_path, "why not?")
    assert smoke.fingerprint(node) != before
    other = connected(machine, smoke=keys)
    look(other)
    assert planned(other, "smoke")[0] == "measure TTFT, ITL, TPOT and E2E"


def test_prompts_leave_the_node_when_they_are_not_sent_any_more(tmp_path: Path) -> None:
    _, machine = settled(tmp_path, smoke={"prompts": written(tmp_path, "why?")})
    other = connected(machine, smoke={"prompts": "texts"})
    look(other)
    assert f"remove {PROMPTS}" in planned(other, "serving")
    document = serving.serving_document(other, other.layout())
    assert read_on_node(tmp_path, document).name.startswith("own texts ")


def test_random_words_are_the_default(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    assert read_on_node(tmp_path, serving.serving_document(node, node.layout())) == WordList()


@pytest.mark.parametrize("content", [None, b"\n", b"\xff", b"bare\n"])
def test_file_that_cannot_be_used_is_refused_before_any_connection(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "asked.jsonl"
    if content is not None:
        path.write_bytes(content)
    problems = list(named_files.missing(spec(tmp_path, smoke={"prompts": str(path)})))
    assert [problem.key for problem in problems] == ["smoke.prompts"]
    assert_message(problems[0].message.replace(str(tmp_path), "DIR"))
