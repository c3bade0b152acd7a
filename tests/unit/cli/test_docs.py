"""The documentation says what the code does: reference pages are made from it, the others held."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from b200kit import cli
from b200kit.cli import reference_pages, settings_page
from b200kit.node import cli as node_cli
from b200kit.node.checks.judge import registered
from b200kit.node.state.verdict import Action
from b200kit.report import outcome
from b200kit.run.session import ENTRIES
from b200kit.stages import pipeline

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
# Operations of the pipeline that are no stages, after the stage they follow.
BETWEEN = {"driver": "reboot", "bandwidth": "gate", "smoke": "proof"}
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


def test_inventory_page_is_made_from_the_spec() -> None:
    assert page("docs/inventory.md") == reference_pages.inventory_markdown(), (
        "python -m b200kit.cli.reference_pages"
    )


def test_checks_page_is_made_from_the_checks() -> None:
    made = reference_pages.checks_markdown()
    assert page("docs/checks.md") == made, "python -m b200kit.cli.reference_pages checks"
    assert set(registered()) <= set(rows("docs/checks.md"))
    assert all(f"`{action.word}`" in made for action in Action)


def test_settings_page_is_made_from_the_table() -> None:
    made = settings_page.settings_markdown()
    assert page("docs/settings.md") == made, "python -m b200kit.cli.reference_pages settings"


def test_unknown_page_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference_pages.main(["nonsense"]) == 2
    assert "inventory|checks|settings" in capsys.readouterr().err


def test_every_stage_is_described_in_the_order_of_the_pipeline() -> None:
    described = re.findall(r"^## (.+)$", page("docs/stages.md"), re.MULTILINE)[1:]
    names = [stage.name for stage in pipeline.STAGES]
    assert described == [
        name for stage in names for name in (stage, BETWEEN.get(stage)) if name is not None
    ]


@pytest.mark.parametrize("scenario", sorted((ROOT / "tests/scenarios").glob("*.yaml")))
def test_every_scenario_is_described(scenario: Path) -> None:
    assert scenario.stem in rows("docs/scenarios.md")


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_sub_command_has_its_exit_codes(command: str) -> None:
    told = {name: cells for name, cells in rows("docs/cli.md").items() if f"b200 {command}" in name}
    assert told
    assert all(cells[-1].startswith(("0 ", "as above")) for cells in told.values())


@pytest.mark.parametrize("command", [c for c in node_cli.COMMANDS if not c.startswith("_")])
def test_every_node_command_has_its_exit_codes(command: str) -> None:
    named = re.compile(rf"node\.pyz {command}(?![\w-])")
    told = [cells for name, cells in rows("docs/cli.md").items() if named.search(name)]
    assert len(told) == 1
    assert re.match(r"0 .+\b[12]\b", told[0][-1])


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_file_is_described(entry: str) -> None:
    assert f"deploy/{entry} -y" in page("docs/cli.md")
    assert f"deploy/{entry} -y" in page("README.md")


def test_every_exit_code_of_an_entry_is_described() -> None:
    assert {"0", "1", "2"} <= set(rows("docs/cli.md"))


@pytest.mark.parametrize("word", outcome._WORDS)
def test_every_outcome_is_described_with_what_it_counts_as(word: str) -> None:
    told = [cells for name, cells in rows("README.md").items() if re.match(rf"{word}\b", name)]
    assert [cells[-1] for cells in told] == ["success" if word in outcome.GOOD else "failure"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
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


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_that_are_named_exist(path: Path) -> None:
    named = set(_PATH.findall(path.read_text(encoding="utf-8")))
    placeholders = {name for name in named if re.search(r"/[A-Z]+\b(?!\.md)", name)}
    assert [name for name in sorted(named - placeholders) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_make_targets_that_are_named_exist(path: Path) -> None:
    targets = set(re.findall(r"^(\w+):", page("Makefile"), re.MULTILINE))
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"`make (\w+)`|^    make (\w+)$", text, re.MULTILINE))
    assert {word for pair in named for word in pair if word} <= targets
