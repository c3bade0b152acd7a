"""The documentation says what the code does: reference pages are made from it, its site builds."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from b200kit import catalog, cli
from b200kit.catalog import shipped, systems
from b200kit.cli import reference_pages
from b200kit.node.checks.judge import registered
from b200kit.node.fabric.states import STATES
from b200kit.node.state.verdict import Action
from b200kit.run.session import ENTRIES
from b200kit.stages import pipeline
from tests import screenshots
from tests.subtests import in_subtests

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = [ROOT / f"docs/reference/{name}.md" for name in reference_pages.PAGES]
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


@cache
def page(name: str) -> str:
    """The text of a page by its path; a reference page as it is made, which is in no commit."""
    if name.startswith("docs/reference/"):
        return reference_pages.PAGES[Path(name).stem]()
    return (ROOT / name).read_text(encoding="utf-8")


def text_of(path: Path) -> str:
    """The text of a page."""
    return page(os.path.relpath(path, ROOT))


def rows(name: str) -> dict[str, list[str]]:
    """First cell, without backticks, to the other cells of every table row of a page."""
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in page(name).splitlines()
        if line.startswith("|")
    ]
    return {row[0].strip("`"): row[1:] for row in cells}


@pytest.mark.process
def test_site_builds_without_a_dead_link_and_asks_no_other_server(tmp_path: Path) -> None:
    docs, site = tmp_path / "docs", tmp_path / "site"
    shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns("reference"))
    reference_pages.write(docs / "reference")
    config = yaml.safe_load(page("mkdocs.yml"))
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    argv = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    loaded = re.compile(r"""<(?:link|script|img)\b[^>]*(?:href|src)=["'](?:https?:)?//""")
    assert [p.name for p in site.rglob("*.html") if loaded.search(p.read_text())] == []


def test_pictures_are_small_and_each_is_shown() -> None:
    pictures = sorted((ROOT / "docs/images").iterdir())
    assert sum(path.stat().st_size for path in pictures) < 400_000
    shown_in = "".join(map(text_of, WRITTEN))
    assert [path.name for path in pictures if f"images/{path.name})" not in shown_in] == []


@pytest.mark.process
def test_every_picture_of_a_screen_is_made_by_the_target() -> None:
    svgs = screenshots.terminals()
    made = {*(f"{name}.svg" for name in svgs), *(f"{name}.png" for name in screenshots.web_pages())}
    assert made <= {path.name for path in screenshots.IMAGES.iterdir()}
    assert [name for name, svg in svgs.items() if re.search(r"url\(.?http", svg)] == []


def commands_named(text: str) -> Iterator[list[str]]:
    """The command lines of `b200` in a page: whole lines of code, and those within a sentence."""
    code = re.findall(r"^(?:    |\$ )*((?:\S+/)?b200 .+)$|`(b200 [^`]+)`", text, re.MULTILINE)
    for line in (a or b for a, b in code):
        for one in re.split(r" && | &$|\s+#\s|\s[|>]|;|\s{3,}", line):
            with suppress(ValueError):
                words = shlex.split(one)
                if words and Path(words[0]).name == "b200":
                    yield words[1:]


@in_subtests("path", WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_with_the_options_and_arguments_that_are_named_exist(path: Path) -> None:
    for words in commands_named(text_of(path)):
        command: click.Command = cli.b200
        context, rest = click.Context(command), list(words)
        while isinstance(command, click.Group) and rest and re.fullmatch(r"[a-z-]+", rest[0]):
            if rest[0].startswith("-"):
                break
            found = command.get_command(context, rest.pop(0))
            assert found is not None, words
            command = found
        if words[:1] == ["lab"]:
            continue  # its words are the simulator's own
        _, unknown, _ = command.make_parser(click.Context(command)).parse_args(rest)
        assert not unknown, words


def test_every_check_and_action_is_described() -> None:
    assert set(registered()) <= set(rows("docs/reference/checks.md"))
    assert all(f"`{action.word}`" in page("docs/reference/checks.md") for action in Action)


def test_unknown_page_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference_pages.main(["nonsense"]) == 2
    assert "all|schema|inventory|attacks|checks|" in capsys.readouterr().err


def steps_of_the_pipeline() -> list[str]:
    """Every stage and the operations between them, in their order."""
    return [step.name for step in pipeline.STEPS]


def test_every_stage_is_described_in_the_order_of_the_pipeline() -> None:
    described = re.findall(r"^## (.+)$", page("docs/reference/stages.md"), re.MULTILINE)
    expected = steps_of_the_pipeline()
    assert [step for step in described if step in expected] == expected


def test_every_state_of_the_fabric_stage_is_described() -> None:
    assert {state.name for state in STATES} <= set(rows("docs/reference/stages.md"))


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


@in_subtests("entry", ENTRIES)
def test_every_entry_file_is_described(entry: str) -> None:
    assert f"deploy/{entry} -y" in page("docs/reference/cli.md")


@pytest.mark.parametrize("name", ["docs/reference/cli.md", "docs/check.md"])
def test_every_exit_code_of_an_entry_is_described(name: str) -> None:
    assert {"0", "1", "2"} <= set(rows(name))


@in_subtests("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for target in _LINK.findall(text_of(path)):
        file, _, heading = target.partition("#")
        if target.startswith("https://"):
            continue
        found = (path.parent / file).resolve() if file else path
        assert found in REFERENCE or found.exists(), target
        # A reader of the repository has no reference pages; the site has nothing but docs/.
        assert path.parent != ROOT or found not in REFERENCE, target
        assert ROOT / "docs" not in path.parents or ROOT / "docs" in found.parents, target
        if heading:
            assert heading in headings(found), target


def headings(path: Path) -> set[str]:
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", text_of(path), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


@in_subtests("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(path: Path) -> None:
    named = set(_PATH.findall(text_of(path)))
    named -= {f"docs/reference/{name}.md" for name in reference_pages.PAGES} | {"docs/reference/"}
    placeholders = {name for name in named if re.search(r"/[A-Z]+\b(?!\.md)", name)}
    assert [name for name in sorted(named - placeholders) if not (ROOT / name).exists()] == []


ATTACKS = [attack for by in shipped.read(reference_pages.ATTACKS) for attack in by["attacks"]]
SYSTEMS = shipped.read(reference_pages.SYSTEMS)


def shown() -> list[str]:
    """Every test that a page names as what shows something."""
    by_attack = [test for attack in ATTACKS for test in attack["tests"]]
    parts = [part for system in SYSTEMS["systems"] for part in system["road"]]
    return [*by_attack, *(test for part in parts for test in part.get("tests", ()))]


@in_subtests("named", shown)
def test_every_test_that_shows_something_is_there(named: str) -> None:
    file, _, test = named.partition("::")
    assert re.search(rf"^def {test or 'test_'}", page(file), re.MULTILINE)


def test_every_supported_system_says_what_was_run_on_it() -> None:
    names = [each["system"] for each in SYSTEMS["systems"]]
    assert sorted(names) == sorted(system.key for system in systems.supported())


@in_subtests("system", SYSTEMS["systems"], ids=lambda system: system["system"])
def test_part_of_a_road_has_a_test_a_source_if_nothing_was_run_or_a_reason(
    system: dict[str, Any],
) -> None:
    needed = {"not run": {"why"}, "data": {"tests", "source"}}
    for part in system["road"]:
        assert part["how"] in SYSTEMS["how"], part
        assert set(part) - {"part", "how"} == needed.get(part["how"], {"tests"}), part
        assert all(part.values()), part


def test_every_attack_has_a_test() -> None:
    assert [attack for attack in ATTACKS if not attack["tests"]] == []


@in_subtests("path", WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_make_targets_that_are_named_exist(path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", page("Makefile"), re.MULTILINE))
    text = text_of(path)
    named = set(re.findall(r"`make ([\w-]+)`|^    make ([\w-]+)\b", text, re.MULTILINE))
    assert {word for pair in named for word in pair if word} <= targets


def test_every_make_target_says_what_it_is_for() -> None:
    text = page("Makefile").replace("\\\n", " ")
    phony = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    assert phony is not None
    described = re.findall(r"^([\w-]+):.*## \w", text, re.MULTILINE)
    assert sorted(phony[1].split()) == sorted(described)
