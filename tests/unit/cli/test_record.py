"""`b200 record`: what a person reads, in 100 columns, and the exit codes that a script does."""

from __future__ import annotations

import json
import re

import pytest

from b200kit import cli
from b200kit.node.lib.documents import unstructure
from b200kit.records.store import Records
from b200kit.store.database import SITE
from tests.messages import TIME, assert_message
from tests.unit.records import runs

NEW = "580.159.03"


def fill(seed: int, count: int, shift: float = 0.0, **fields: object) -> None:
    """Append runs of n01; the seed gives them their days, too."""
    for number, day in enumerate(runs.days(seed, count, 0.01, shift)):
        Records().append("n01", runs.run(20 * seed + number, day, **fields))


def output_of(
    capsys: pytest.CaptureFixture[str], *arguments: str, exit_code: int = 0, wide: bool = False
) -> str:
    """Run a sub-command; what it printed, lines of at most 100 columns."""
    assert cli.main(["record", *arguments]) == exit_code
    output = capsys.readouterr()
    assert wide or all(len(line) <= 100 for line in output.out.splitlines())
    return (output.out + output.err).replace(str(SITE.path.parent), "SITE")


def accept(capsys: pytest.CaptureFixture[str], *arguments: str, exit_code: int = 0) -> str:
    """Accept what there is."""
    words = ("accept", "n01", "--by", "ops-on-call", "--why", "acceptance run", *arguments)
    return output_of(capsys, *words, exit_code=exit_code)


def test_same_and_regression_and_too_few(capsys: pytest.CaptureFixture[str]) -> None:
    fill(1, 10)
    assert_message(output_of(capsys, "compare", "n01", exit_code=2))
    assert_message(accept(capsys))
    fill(2, 4)
    assert "not enough runs" in output_of(capsys, "compare", "n01", exit_code=2)
    fill(3, 6)
    text = output_of(capsys, "compare", "n01")
    assert_message(text, TIME=TIME)


def test_regression_is_told_with_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    fill(1, 10)
    accept(capsys)
    fill(2, 10, 0.07, versions__driver=NEW)
    text = output_of(capsys, "compare", exit_code=1)
    assert "n01  DIFFERENT   TTFT +" in text
    assert f"changed     driver 580.105.08 -> {NEW}" in text
    for name in ("TTFT", "ITL", "TPOT", "E2E"):
        assert f"\n  {name}" in text


def test_better_is_different_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    fill(1, 10)
    accept(capsys)
    fill(2, 10, -0.07, versions__driver=NEW)
    assert "DIFFERENT   TTFT -" in output_of(capsys, "compare", "n01")


def test_comparison_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    fill(1, 10)
    accept(capsys)
    fill(2, 10, 0.2)
    found = json.loads(output_of(capsys, "compare", "n01", "--json", exit_code=1, wide=True))
    assert set(found["n01"]["slower"]) == set(runs.BASE)


def test_another_node_is_the_measure(capsys: pytest.CaptureFixture[str]) -> None:
    fill(1, 10)
    for number, day in enumerate(runs.days(5, 10, 0.01, 0.1)):
        Records().append("n02", runs.run(number, day, run__node="n02"))
    assert "n02  DIFFERENT" in output_of(capsys, "compare", "n02", "--with", "n01", exit_code=1)


def test_list_shows_the_fleet_and_the_runs_of_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    fill(1, 6)
    Records().append("n01", runs.figured(runs.run(90), verdict="invalid"))
    assert "none accepted" in output_of(capsys, "list")
    assert accept(capsys)
    text = output_of(capsys, "list", "n01")
    assert text.count("baseline") == 6
    accepted = re.compile(r"(?<=accepted )[\d-]+")
    assert_message(text, DATE=accepted, RUN=re.compile(r"\b[0-9a-f]{10}\b"))


def test_show_gives_figures_and_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    fill(1, 2)
    text = output_of(capsys, "show", "n01")
    for words in (
        "driver",
        "580.105.08",
        "max-num-seqs",
        "not on this machine",
        "P50 / P95",
    ):
        assert words in text
    known = Records().read("n01").runs[0]
    entry = json.loads(output_of(capsys, "show", "n01", known.id[:6], "--json", wide=True))
    assert entry == unstructure(known)


def test_refusals_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert_message(output_of(capsys, "list", exit_code=2))
    assert_message(output_of(capsys, "compare", "n09", exit_code=2))
    assert_message(accept(capsys, exit_code=1))
    fill(1, 3)
    assert_message(accept(capsys, exit_code=1))
    assert_message(output_of(capsys, "show", "n01", "zzz", exit_code=2))


@pytest.mark.parametrize("arguments", [("accept", "n01"), ("compare", "n01", "--last", "0")])
def test_misuse_is_refused(arguments: tuple[str, ...]) -> None:
    assert cli.main(["record", *arguments]) == 64


def test_damaged_record_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    fill(1, 6)
    SITE.append("record", "n02", "{}")
    for arguments in (("list",), ("show", "n02"), ("compare", "n02")):
        assert "about n02: " in output_of(capsys, *arguments, exit_code=2, wide=True)
    output_of(capsys, "list", "n01")
