"""A run of a thousand nodes: what it leaves grows little a node, and each link leads somewhere."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from b200kit.cli.report import load, of_nodes
from b200kit.report.content.nodes import MOST_PAGES, in_short, whole
from b200kit.report.content.verdict import serving_line
from b200kit.report.files import stored, write_hosts
from b200kit.report.html.page import render
from b200kit.report.names import host_page
from b200kit.report.outcome import hosts_of
from tests.sample import sample
from tests.unit.report import records
from tests.unit.report.pages import Page, terminal, write

NODES, BAD = len(sample(range(1000), 5)), 120
PAGE_BYTES, NODE_BYTES = 3_000_000, 40_000

# The report of a fleet takes as long as a program does.
pytestmark = pytest.mark.process


def hosts() -> Iterator[tuple[str, Any]]:
    """A thousand nodes with --all-cases; each bad one has a fault of its own."""
    well, red = records.live(), records.red()
    for number in range(NODES):
        host = well
        if number < BAD:
            host = copy.deepcopy(red)
            host["verdict"]["findings"][-1]["part"] += f" of {number}"
        yield f"n{number:04}", host


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The page of such a run, and what of it was kept in memory."""
    return write_hosts(records.record(), hosts(), tmp_path_factory.mktemp("reports"))


def test_page_of_the_fleet_is_small_and_shows_the_exceptions(
    run: tuple[Path, dict[str, Any]],
) -> None:
    page = run[0]
    assert page.stat().st_size < PAGE_BYTES
    found = Page(page.read_text())
    assert found.tags["article"] == 0
    assert f"n[{BAD:04}-{NODES - 1:04}]" in found.text
    assert all(f"of {number}" in found.text for number in range(BAD))


def test_every_link_leads_to_the_page_of_a_node_that_is_not_well(
    run: tuple[Path, dict[str, Any]],
) -> None:
    page = run[0]
    links = {value for _, name, value in Page(page.read_text()).attributes if name == "href"}
    assert len(links) == MOST_PAGES
    assert links <= {host_page(f"n{number:04}") for number in range(BAD)}
    for link in links:
        assert Page((page.parent / link).read_text()).tags["article"] == 1


def test_files_of_a_node_are_bounded_and_read_back_whole(
    run: tuple[Path, dict[str, Any]],
) -> None:
    folder = run[0].parent
    files = [folder / f"n{number:04}.json.gz" for number in range(NODES)]
    assert max(file.stat().st_size for file in files) < NODE_BYTES
    assert stored(files[-1]) == stored(files[-2])
    record = of_nodes(load(folder), ("n0003",))
    assert Page(render(record)).tags["article"] == 1
    assert " of 3" in terminal(record, all_whole=True)


def test_only_nodes_that_are_shown_whole_stay_in_memory(
    run: tuple[Path, dict[str, Any]],
) -> None:
    kept = run[1]["hosts"]
    assert len(kept) == NODES
    assert sum("state" in host for host in kept.values()) == 24
    assert "in_short" in kept[f"n{NODES - 1:04}"]


def test_stored_run_is_told_as_at_its_end_from_the_files_of_nodes_that_are_shown_whole(
    run: tuple[Path, dict[str, Any]],
) -> None:
    page, kept = run
    read = load(page.parent, whole)
    assert sum("state" in host for host in hosts_of(read).values()) == 24  # type: ignore[operator]
    assert terminal(read, report=str(page)) == terminal(kept, report=str(page))


def test_node_in_short_is_told_as_the_whole_one() -> None:
    for host in records.fleet()["hosts"].values():
        assert serving_line(in_short(host)) == serving_line(host)
    many: dict[str, Any] = {f"{name}-{n}": host for n in range(6)
                            for name, host in records.fleet()["hosts"].items()}  # fmt: skip
    short: dict[str, Any] = {name: in_short(host) for name, host in many.items()}
    page = render(records.record(**many), {"x": "x.html"})
    assert render(records.record(**short), {"x": "x.html"}) == page


def test_node_called_as_the_page_has_files_of_its_own(tmp_path: Path) -> None:
    nodes: dict[str, Any] = {f"n{number}": records.red() for number in range(30)}
    page = write(records.record(report=records.red(), **nodes), tmp_path)
    assert Page(page.read_text()).tags["article"] == 0
    assert host_page("report") == "report-host.html"
