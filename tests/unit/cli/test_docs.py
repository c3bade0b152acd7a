"""The documentation says what the code does: reference pages are made from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from b200kit import catalog, cli
from b200kit.cli import reference_pages
from b200kit.cli.pages.attacks_page import attacks
from b200kit.cli.pages.systems_page import document
from b200kit.node import cli as node_cli
from b200kit.node.checks.judge import registered
from b200kit.node.fabric.states import STATES
from b200kit.node.state.verdict import Action
from b200kit.report import outcome
from b200kit.run.session import ENTRIES
from b200kit.stages import pipeline
from b200kit.stages.support.operating_systems import SUPPORTED
from tests.subtests import in_subtests

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = sorted(ROOT.glob("docs/reference/*.md"))
WRITTEN = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "tests/**/README.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
PAGES = [ROOT / "CHANGELOG.md", *WRITTEN, *REFERENCE]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(
    r"(?<![\w/.-])(?:deploy|docs|inventories|requirements|templates|tests|\.ci)/[\w@./-]*[\w/]"
)


def page(name: str) -> str:
    """The text of a page by its path."""
    return (ROOT / name).read_text(encoding="utf-8")


def rows(name: str) -> dict[str, list[str]]:
    """First cell, without backticks, to the other cells of every table row of a page."""
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in page(name).splitlines()
        if line.startswith("|")
    ]
    return {row[0].strip("`"): row[1:] for row in cells}


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_reference_page_is_made_from_the_code(name: str) -> None:
    made = reference_pages.PAGES[name]()
    assert page(f"docs/reference/{name}.md") == made, "python -m b200kit.cli.reference_pages all"


def test_there_is_no_reference_page_that_nothing_makes() -> None:
    assert [path.stem for path in REFERENCE] == sorted(reference_pages.PAGES)


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_every_reference_page_is_in_the_index(name: str) -> None:
    assert f"(reference/{name}.md)" in page("docs/index.md")


def test_every_check_and_action_is_described() -> None:
    assert set(registered()) <= set(rows("docs/reference/checks.md"))
    assert all(f"`{action.word}`" in page("docs/reference/checks.md") for action in Action)


def test_unknown_page_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference_pages.main(["nonsense"]) == 2
    assert "all|schema|inventory|attacks|checks|" in capsys.readouterr().err


def steps_of_the_pipeline() -> list[str]:
    """Every stage and the operations between them, in their order."""
    return [step.name for step in pipeline.STEPS]


@pytest.mark.parametrize("name", ["docs/reference/stages.md", "docs/deploy.md"])
def test_every_stage_is_described_in_the_order_of_the_pipeline(name: str) -> None:
    described = (
        re.findall(r"^## (.+)$", page(name), re.MULTILINE) if "stages" in name else rows(name)
    )
    expected = steps_of_the_pipeline()
    assert [step for step in described if step in expected] == expected


def test_every_state_of_the_fabric_stage_is_described() -> None:
    described = rows("docs/reference/stages.md")
    for state in STATES:
        assert described[state.name][0] == state.waits_for
        assert described[state.name][-2] == f"`{state.action.word}`"


@in_subtests("scenario", sorted((ROOT / "tests/scenarios").glob("*.yaml")))
def test_every_scenario_is_described(scenario: Path) -> None:
    assert scenario.stem in rows("docs/reference/scenarios.md")


@pytest.mark.parametrize("folder", ["models", "hardware"])
def test_every_model_and_hardware_is_described(folder: str) -> None:
    names = {path.stem for path in (Path(catalog.__file__).parent / folder).rglob("*.yaml")}
    text = page("docs/reference/models.md") + page("docs/reference/checks.md")
    assert [
        name for name in sorted(names) if f"{name}`" not in text and f"/{name}." not in text
    ] == []


def test_every_diagnosis_is_described() -> None:
    rules = yaml.safe_load((Path(catalog.__file__).parent / "diagnoses.yaml").read_text())
    for name in rules["diagnoses"]:
        assert f"\n## {name}\n" in page("docs/reference/diagnoses.md")


@in_subtests("command", cli.COMMANDS)
def test_every_sub_command_has_its_exit_codes(command: str) -> None:
    found = rows("docs/reference/cli.md").items()
    codes = [cells[-1] for name, cells in found if re.match(rf"b200 {command}\b", name)]
    assert codes
    assert all(code.startswith("0 ") for code in codes)


@in_subtests("command", [c for c in node_cli.COMMANDS if not c.startswith("_")])
def test_every_node_command_has_its_exit_codes(command: str) -> None:
    codes = rows("docs/reference/cli.md")[f"node.pyz {command}"][-1]
    assert re.match(r"0 .+\b[12]\b", codes)


@in_subtests("entry", ENTRIES)
def test_every_entry_file_is_described(entry: str) -> None:
    assert f"deploy/{entry} -y" in page("docs/reference/cli.md")
    assert f"`deploy/{entry}`" in page("README.md")


@pytest.mark.parametrize("name", ["docs/reference/cli.md", "docs/check.md"])
def test_every_exit_code_of_an_entry_is_described(name: str) -> None:
    assert {"0", "1", "2"} <= set(rows(name))


@in_subtests("word", outcome._WORDS)
def test_every_outcome_is_described_with_what_it_counts_as(word: str) -> None:
    found = [cells for name, cells in rows("README.md").items() if re.match(rf"{word}\b", name)]
    assert [cells[-1] for cells in found] == ["success" if word in outcome.GOOD else "failure"]


@in_subtests("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for target in _LINK.findall(path.read_text(encoding="utf-8")):
        file, _, heading = target.partition("#")
        if target.startswith("https://"):
            continue
        found = path.parent / file if file else path
        assert found.exists(), target
        if heading:
            assert heading in headings(found), target


def headings(path: Path) -> set[str]:
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


@in_subtests("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(path: Path) -> None:
    named = set(_PATH.findall(path.read_text(encoding="utf-8")))
    placeholders = {name for name in named if re.search(r"/[A-Z]+\b(?!\.md)", name)}
    assert [name for name in sorted(named - placeholders) if not (ROOT / name).exists()] == []


def shown() -> list[str]:
    """Every test that a page names as what shows something."""
    by_attack = [test for by in attacks() for attack in by["attacks"] for test in attack["tests"]]
    parts = [part for system in document()["systems"] for part in system["road"]]
    return [*by_attack, *(test for part in parts for test in part.get("tests", ()))]


@in_subtests("named", shown)
def test_every_test_that_shows_something_is_there(named: str) -> None:
    file, _, test = named.partition("::")
    assert re.search(rf"^def {test or 'test_'}", page(file), re.MULTILINE)


def test_every_supported_system_says_what_was_run_on_it() -> None:
    known = document()
    names = [system["name"] for system in known["systems"]]
    assert sorted(names) == sorted(system.name for system in SUPPORTED)


@in_subtests("system", lambda: document()["systems"], ids=lambda system: system["name"])
def test_part_of_a_road_has_a_test_a_source_if_nothing_was_run_or_a_reason(
    system: dict[str, Any],
) -> None:
    needed = {"not run": {"why"}, "data": {"tests", "source"}}
    for part in system["road"]:
        assert part["how"] in document()["how"], part
        assert set(part) - {"part", "how"} == needed.get(part["how"], {"tests"}), part
        assert all(part.values()), part


def test_every_attack_has_a_test() -> None:
    assert [attack for by in attacks() for attack in by["attacks"] if not attack["tests"]] == []


@in_subtests("path", WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_make_targets_that_are_named_exist(path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", page("Makefile"), re.MULTILINE))
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([\w-]+)`|^    make ([\w-]+)\b", text, re.MULTILINE))
    assert {word for pair in named for word in pair if word} <= targets


def test_every_make_target_says_what_it_is_for() -> None:
    text = page("Makefile").replace("\\\n", " ")
    phony = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    assert phony is not None
    described = re.findall(r"^([\w-]+):.*## \w", text, re.MULTILINE)
    assert sorted(phony[1].split()) == sorted(described)
