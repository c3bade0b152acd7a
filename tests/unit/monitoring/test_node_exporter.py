"""The distribution's node_exporter, with the arguments that a node gets, gives our metrics on."""

from __future__ import annotations

import re
import shlex
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from b200kit.node.status import metrics
from b200kit.node.status.metrics import families
from b200kit.run.render import render
from tests.lab.supply import programs
from tests.prometheus import running, until
from tests.unit.gateway.proxy import free_port
from tests.unit.monitoring.monitored import well

OURS = "b200kit.prom"
_LABEL = re.compile(r'\w+="(?:[^"\\]|\\.)*"')


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder that it reads, and where it answers."""
    folder, at = tmp_path_factory.mktemp("textfiles"), f"127.0.0.1:{free_port()}"
    text = render("host/node-exporter.j2", address=at, textfiles=folder).decode()
    # The package's unit gives it $ARGS, which systemd splits as a shell does.
    words = shlex.split(shlex.split(text.partition("ARGS=")[2])[0])
    with running(programs.node_exporter(), words, folder.with_suffix(".log")):
        until(lambda: bool(answer(at)))
        yield folder, at


def answer(at: str) -> list[str]:
    """The lines of its page; none while it does not answer yet."""
    try:
        with urllib.request.urlopen(f"http://{at}/metrics", timeout=20) as found:
            return str(found.read().decode()).splitlines()
    except OSError:
        return []


def samples(lines: list[str]) -> set[tuple[str, frozenset[str], float]]:
    """Our own metrics: name, labels in any order, value."""
    ours = (line.rpartition(" ") for line in lines if line.startswith("b200_"))
    return {
        (series.partition("{")[0], frozenset(_LABEL.findall(series)), float(value))
        for series, _, value in ours
    }


@pytest.mark.process
def test_every_sample_that_a_node_writes_is_on_its_page(exporter: tuple[Path, str]) -> None:
    folder, at = exporter
    page = metrics.text(families(well(time.time())))
    (folder / OURS).write_text(page)
    lines = answer(at)
    assert "node_textfile_scrape_error 0" in lines
    assert samples(lines) == samples(page.splitlines()) != set()
    assert any(
        line.startswith(f'node_textfile_mtime_seconds{{file="{folder / OURS}"}}') for line in lines
    )


@pytest.mark.process
def test_a_page_cut_short_is_an_error_there_and_not_a_part_of_the_node(
    exporter: tuple[Path, str],
) -> None:
    folder, at = exporter
    page = metrics.text(families(replace(well(time.time()), given=50)))
    (folder / OURS).write_text(page[: len(page) // 2].rpartition(" ")[0])
    lines = answer(at)
    assert "node_textfile_scrape_error 1" in lines
    assert samples(lines) == set()
