"""The examples of docs/extend.md and docs/lab.md work as they stand there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import yaml

from b200kit.catalog import load as catalog
from b200kit.converge.stage import Change, DesiredState, Stage, converge, nominal_layout
from b200kit.inventory.keys.problem import parse_keys
from b200kit.node.checks import judge as judging
from b200kit.node.checks.findings import failed, passed
from b200kit.node.placement.layout import Replica
from b200kit.node.state.drift import File
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView
from b200kit.run.node import Node
from b200kit.stages import pipeline
from tests.lab.hardware import scenario, scenario_merge
from tests.unit import corpus, states
from tests.unit.nodes import look, settled

ROOT = Path(__file__).resolve().parents[3]


def example(heading: str, language: str) -> str:
    """The first example of a language below a heading of docs/extend.md."""
    page = (ROOT / "docs/extend.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return section.partition(f"```{language}\n")[2].partition("```")[0]


def run(code: str, **names: object) -> dict[str, Any]:
    """What an example defines, with the names it uses."""
    space: dict[str, Any] = {"Iterator": Iterator, "Sequence": Sequence, **names}
    exec(compile(code, "docs/extend.md", "exec"), space)
    return space


def test_check_passes_fails_and_is_unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "REGISTRY", {})
    names = (judging.check, Expectation, StateView, Finding, Action)
    findings = {"failed": failed, "passed": passed}
    run(example("A check", "python"), **{n.__name__: n for n in names}, **findings)
    expect, state = states.expectation("hgx-b200"), states.recorded("healthy-hgx-b200")
    seen = []
    for mode in (0, 1, {"unmeasured": "not read"}):
        state["fabric_manager"]["mode"] = mode
        seen.append(judging.judge(expect, state, judging.REGISTRY).fit)
    assert seen == ["fit", "unfit", "unmeasured"]


def test_case_of_the_corpus_is_judged_as_it_says(tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(example("A check", "yaml"), encoding="utf-8")
    read = corpus.read([path])
    assert read.problems == []
    [case] = read.cases
    verdict = judging.judge(case.expectation(), case.state())
    blocking = [finding for finding in verdict.findings if finding.blocks]
    assert verdict.fit == case.fit
    assert [w.matches(f, case.fit) for w in case.findings for f in blocking] == [True]


def test_stage_changes_a_node_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (Node, Replica, DesiredState, File, Change, Stage, converge, nominal_layout)
    stage = run(example("A stage", "python"), **{n.__name__: n for n in names})["STAGE"]
    node, machine = settled(tmp_path)
    step = pipeline.PipelineStep("Message of the day", stage)
    monkeypatch.setattr(pipeline, "STEPS", (*pipeline.STEPS, step))
    look(node)
    for change in stage.plan(node):
        change.apply(node)
    look(node)
    assert stage.plan(node) == []
    assert machine.ran("restart haproxy.service") != []


def test_scenario_is_one() -> None:
    page = (ROOT / "docs/lab.md").read_text(encoding="utf-8")
    section = page.partition("\n## Scenarios\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^    (.*)$", section, re.MULTILINE)
    written = yaml.safe_load("\n".join(lines))
    assert written.pop("extends") == "healthy"
    base = scenario.load("healthy")
    assert set(written) <= {"description", "source", *base}
    resolved = scenario_merge.extend(base, written, "docs/lab.md")
    assert resolved["gpus"][5]["recovery_action"] == 1


def test_inventory_key_is_parsed(tmp_path: Path) -> None:
    key = example("An inventory key", "python").replace("\n", "\n    ")
    # pydantic reads the docstring of a key from the source, so the example is a file.
    module = tmp_path / "example_of_a_key.py"
    imports = "from pydantic import Field\nfrom b200kit.inventory.keys.types import Keys\n"
    module.write_text(f'{imports}\nclass Example(Keys):\n    """A key."""\n\n    {key}\n')
    spec = spec_from_file_location(module.stem, module)
    assert spec
    assert spec.loader
    made = module_from_spec(spec)
    sys.modules[module.stem] = made
    spec.loader.exec_module(made)
    del sys.modules[module.stem]
    [(name, field)] = made.Example.model_fields.items()
    assert field.description
    assert isinstance(parse_keys(made.Example, {name: field.default}), made.Example)
    assert isinstance(parse_keys(made.Example, {name: 0}), list)


def test_model_is_one_of_the_catalog() -> None:
    document = yaml.safe_load(example("A model", "yaml"))
    model = catalog._model("example", document, catalog.model_documents())
    assert model.dimensions == catalog.load().models["llama-3.3-70b-fp8"].dimensions
