"""Many nodes: what is bad first and whole, what is alike once; bounded however many there are."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.report.content.nodes import fleet
from b200kit.report.content.verdict import first_of, serving_line
from b200kit.report.files import stored
from b200kit.report.names import hostlist
from b200kit.report.outcome import ranked
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.report import pages, records
from tests.unit.report.pages import terminal, write


def many(bad: int, good: int, entry: str = "b200.py") -> records.Json:
    """A run over so many nodes, each bad one with a fault of its own."""
    well, red = records.live(), records.red()
    hosts: dict[str, Any] = {f"n{i:04}": well for i in range(bad, bad + good)}
    for i in range(bad):
        host = copy.deepcopy(red)
        host["verdict"]["findings"][-1]["part"] += f" of {i}"
        hosts[f"n{i:04}"] = host
    return records.record(entry, **hosts)


def test_bad_nodes_stand_first_then_unmeasured_then_the_rest() -> None:
    order = ["n02", "n03", "n04", "n06", "n07", "n01", "n05"]
    assert list(ranked(records.fleet())) == order
    text = terminal(records.fleet())
    places = [text.index(f"\n{name}  ") for name in order[1:]]
    assert places == sorted(places)
    page = pages.page(**records.fleet()["hosts"]).text
    # The run's own figures come after all nodes.
    assert page.index("controller wall_s") > page.rindex("n05")


def test_action_is_the_line_below_its_cause_and_serving_the_next() -> None:
    lines = terminal(records.record(n01=records.red())).splitlines()
    assert "GPU 2 has no NVLink" in lines[0]
    assert lines[1].strip().startswith("-> reset the GPU")
    assert lines[3].strip().startswith("serving  ")
    assert next(line for line in reversed(lines[:-3]) if line).startswith("  run  ")


def test_first_screen_of_a_large_run_has_every_bad_node_and_its_action() -> None:
    text = terminal(many(5, 300, "check.py"))
    assert len(text.splitlines()) < 150
    assert text.count("-> reset the GPU") == 5
    assert text.count("8x B200") == 1
    assert_message(text[text.index("300 nodes") :])


def test_equal_faults_of_many_nodes_are_told_once() -> None:
    hosts: dict[str, Any] = {f"n{i:03}": records.failed() for i in range(200)}
    text = terminal(records.record(**hosts))
    assert text.count("mirror: ") == 2
    assert_message(text[text.index("199 nodes") :])


def test_different_faults_of_many_nodes_are_bounded() -> None:
    text = terminal(many(100, 0))
    assert text.count("  run  ") == 24
    assert text.count("-> reset the GPU") == 100


def test_node_that_was_not_measured_has_its_row_beside_the_others() -> None:
    hosts: dict[str, Any] = {"n01": records.live(), "n02": records.red(), "n03": records.live()}
    rows = {row.name: row.figures for row in fleet(records.record(**hosts))}
    assert rows.keys() == hosts.keys()
    assert set(rows["n02"]) == {"unmeasured"}


def test_page_grows_little_with_healthy_nodes(tmp_path: Path) -> None:
    sizes = [write(many(5, good), tmp_path / str(good)).stat().st_size for good in (30, 60)]
    assert (sizes[1] - sizes[0]) / 30 < 1000
    page = pages.page(**many(5, 130)["hosts"])
    assert page.tags["article"] == 5
    assert "n[0005-0134]" in page.text


def test_node_file_is_compressed_json_on_one_line(tmp_path: Path) -> None:
    page = write(records.record(n01=records.live()), tmp_path)
    file = page.parent / "n01.json.gz"
    text = gzip.decompress(file.read_bytes()).decode()
    assert len(text) == len(json.dumps(stored(file), separators=(",", ":"))) + 1
    assert file.stat().st_size < len(text) / 2


@in_subtests(
    ("host", "words"),
    [
        ({"outcome": "red", "withdrawn": {"units": ["haproxy.service", "vllm@0.service"]}},
         "stopped by this run: 1 replica, haproxy.service"),
        ({"outcome": "red", "withdrawn": {"units": []}}, "nothing served here"),
        ({"outcome": "red", "withdrawn": {"unmeasured": "no answer"}},
         "STILL SERVING: it could not be stopped: no answer"),
        ({"outcome": "unfit", "state": {"units": {"vllm@0.service": {"active": "active"}}}},
         "untouched: 1 replica ran when it was observed"),
        ({"outcome": "failed", "changes": 2, "state": {"units": {"vllm@0.service": None}}},
         "unmeasured since this run's changes: no replica ran when it was observed"),
        ({"outcome": "unfit", "state": {"units": {"vllm@0.service": {"active": "failed"}}}},
         "untouched: no replica ran when it was observed"),
        ({"outcome": "unreachable"},
         "unmeasured: it was not observed; what serves there was not touched"),
        ({"outcome": "unfit", "state": {"units": {"unmeasured": "timed out"}, "x": 1}},
         "unmeasured: its units were not read; this run stopped nothing"),
        ({"outcome": "quarantined", "reprovision": {"state": "manual repair"}},
         "out of service: manual repair"),
        ({"outcome": "live"}, "serves"),
    ],
)  # fmt: skip
def test_who_serves_is_one_line(host: Any, words: str) -> None:
    assert serving_line(host) == words


def test_cause_that_is_a_finding_has_its_action_and_is_told_once() -> None:
    finding = records.lost_link_finding()
    host = records.red() | {"error": f"{finding['summary']} (and 4 more)"}
    assert first_of(host).action.startswith("reset the GPU")
    assert terminal(records.record("check.py", n01=host)).count(finding["summary"]) == 1
    other = first_of(host | {"outcome": "failed", "error": "apt: no space left"})
    assert (other.cause, other.action[:16]) == ("apt: no space left", "remove the cause")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n1", "n2", "n3", "n5"], "n[1-3,5]"),
        (["n08", "n09", "n10", "n8"], "n[08-10], n8"),
        (["a", "rack-1-2", "rack-1-3", "b\x1b"], "rack-1-[2-3], a, b\\x1b"),
        ([], ""),
    ],
)
def test_names_are_a_host_list(names: list[str], text: str) -> None:
    assert hostlist(names) == text
