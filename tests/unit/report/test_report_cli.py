"""`b200 report`: a stored run shown again."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit import cli
from tests.unit.report import records
from tests.unit.report.pages import terminal, write


def main(arguments: list[str]) -> int:
    """Exit code of `b200 report`."""
    return cli.main(["report", *arguments])


def test_the_latest_run_is_shown_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write({**records.record(n9=records.red()), "run": "20261120-010101"}, tmp_path)
    page = write(records.fleet(), tmp_path)
    assert main(["--reports", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert str(page) in shown
    assert shown == terminal(records.fleet(), report=str(page))


def test_the_page_of_a_stored_run_is_that_of_the_run(tmp_path: Path) -> None:
    page = write(records.fleet(), tmp_path)
    assert main(["--reports", str(tmp_path), "--page", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_text() == page.read_text()


@pytest.mark.parametrize("by", ["id", "path"])
def test_a_run_is_found_by_id_or_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    page = write(records.fleet(), tmp_path)
    name = page.parent.name if by == "id" else str(page.parent)
    assert main([name, "--reports", str(tmp_path)]) == 0
    assert "n02" in capsys.readouterr().out


@pytest.mark.parametrize("run", ["latest", "20990101-000000"])
def test_no_such_run_is_one_line_and_exit_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run: str
) -> None:
    assert main([run, "--reports", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_a_damaged_summary_is_one_line_and_exit_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = write(records.fleet(), tmp_path)
    (page.parent / "summary.json").write_text("{half")
    assert main(["--reports", str(tmp_path)]) == 2
    assert "summary.json: not JSON" in capsys.readouterr().err
