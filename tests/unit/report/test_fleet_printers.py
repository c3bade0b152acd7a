"""The fleet now on a screen and on a page: its words, its limits, and texts that are hostile."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from typing import Any

import pytest

from b200kit.report.content.now import fleet as words
from b200kit.report.content.now.fleet import fleet_now
from b200kit.report.content.now.node import Planned
from b200kit.report.html.fleet_page import page
from b200kit.report.terminal.fleet_screen import screen
from tests.messages import assert_message
from tests.unit.report import fleets, pages
from tests.unit.report.test_hostile_text import HOSTILE, leaves, printed

_CODE = re.compile(r"\x1b\[(?:0|[\d;]+)m")


@pytest.mark.parametrize("fleet", [fleets.mixed, fleets.thousand])
def test_screen(fleet: Any) -> None:
    found = screen(fleet())
    assert_message(*found)
    assert max(map(len, found)) <= 100
    assert [_CODE.sub("", line) for line in screen(fleet(), colour=True)] == found


def test_a_low_screen_shows_the_most_urgent_and_counts_the_rest() -> None:
    found = screen(fleets.mixed(), most=14)
    assert len(found) <= 14
    assert found[4].startswith("n08  OUT")
    assert any("more nodes, which --page" in line for line in found)
    assert found[-1].startswith("as read at")


def test_a_share_is_never_rounded_up_to_the_whole() -> None:
    nodes = {f"n{i}": fleets.known(fleets.standing(f"n{i}")) for i in range(2000)}
    nodes["n1"] = fleets.known(fleets.held("n1"))
    nodes["n2"] = fleets.known(fleets.standing("n2", proof=None))
    assert words.freshness(fleets.fleet(nodes)).startswith("99.9 %")
    assert words.freshness(fleets.fleet({})) == "-"


def test_what_several_faults_ask_for_is_said_once() -> None:
    faults = [fleets.fault(), fleets.fault("GPU 3 asks for a reset")]
    both = fleets.fleet({"n1": fleets.known(fleets.standing("n1", watch=fleets.look(*faults)))})
    assert len(both.rows[0].points) == 2
    assert "\n".join(screen(both)).count("-> reset") == 1
    assert page(both).count("reset the GPU,") == 1


def test_page_says_what_the_screen_says_and_renews_itself() -> None:
    fleet = fleets.mixed()
    found = pages.Page(page(fleet))
    assert found.open == []
    shown = " ".join(found.text.split())
    for row in fleet.rows:
        for point in row.points:
            assert point.what in shown
            assert point.next in shown
    assert ("meta", "content", "10") in found.attributes
    assert ("body", "data-made", str(int(fleets.NOW))) in found.attributes
    assert not [a for a in found.attributes if a[1] in ("src", "href")]


def test_a_page_that_nobody_renews_does_not_reload() -> None:
    once = fleet_now({}, {}, (), fleets.NOW, 0)
    assert "refresh" not in [value for _, _, value in pages.Page(page(once)).attributes]


def test_the_policy_of_the_page_lets_its_own_script_run_and_no_other() -> None:
    found = page(fleets.mixed())
    assert pages.Page(found).tags["script"] == 1
    script = found.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html.unescape(found)


def hostile() -> Any:
    """Every text that a node, its ledger and the inventory may hold."""
    documents = [fleets.held("n1"), fleets.standing("n2", proof=fleets.proof("n2", -9.0)),
                 fleets.standing("n3", quarantine={"who": "x", "why": "x", "since": "x"}),
                 fleets.standing("n4", mark={"who": "x", "why": "x"}),
                 fleets.standing("n5", replicas=[fleets.replica(0, "x", False)])]  # fmt: skip
    for document in documents:
        for value, key in list(leaves(document)):
            value[key] = value[key] if key in ("schema", "at", "boot_id", "held") else HOSTILE
    summary = documents[0]["watch"]["faults"][0]["finding"]["summary"]
    documents[0]["watchdog"]["0"]["held"] = summary
    nodes = {f"n9{i}{HOSTILE}": fleets.known(one) for i, one in enumerate(documents)}
    nodes["n99"] = fleets.known(None, why=HOSTILE)
    return fleets.fleet(nodes, {"n99": Planned(HOSTILE)}, (HOSTILE,))


def test_no_text_drives_the_terminal_or_forges_a_line() -> None:
    found = screen(hostile(), colour=True)
    assert printed(*found, colour=True) == found
    plain = [_CODE.sub("", line) for line in found]
    assert all(line.isprintable() for line in plain)
    assert not any(line.startswith("n9  LIVE") for line in plain)


def test_no_text_is_an_element_of_the_page() -> None:
    text = page(hostile())
    assert text.replace("\n", "").isprintable()
    found = pages.Page(text)
    assert found.tags["script"] == 1
    assert "49" not in found.text.split()
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    assert json.dumps(HOSTILE) not in text
