"""The page in a real browser: whole, nothing fetched, nothing complained of, nothing cut off."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import unstructure
from b200kit.report.html.page import render
from tests.unit import states
from tests.unit.report import pages, records
from tests.unit.report.test_report_timeline import document, slow

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
LIMIT_S = 120
_NOT_THE_PAGE = "not an origin"  # initiator of what the browser asks for of itself

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]


def browse(tmp: Path, html: str, *more: str) -> tuple[str, list[str], list[str]]:
    """Open a page: its elements afterwards, what it asked the network for, what it complained of.

    No name is resolved, so that a request is seen and goes nowhere.
    """
    (tmp / "page.html").write_text(html, encoding="utf-8")
    argv = [
        str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
        f"--user-data-dir={tmp / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--log-net-log={tmp / 'net.json'}", "--enable-logging=stderr", "--window-size=420,900",
        *more, "--dump-dom", f"file://{tmp / 'page.html'}",
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    events = json.loads((tmp / "net.json").read_text(encoding="utf-8"))["events"]
    found = [event.get("params") or {} for event in events]
    asked = [p["url"] for p in found if p.get("initiator", _NOT_THE_PAGE) != _NOT_THE_PAGE]
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, asked, said


def test_page_is_whole_and_quiet_in_a_browser(tmp_path: Path) -> None:
    name = "<script>throw new Error('x')</script>"
    full = records.live(
        smoke=records.smoke(stand_in=True) | {"requests": pages.requests(failed=(3,))},
        record=document(slow(10)), tuning=pages.tuning(), reprovision=pages.reprovisioned(),
    )  # fmt: skip
    record = records.record(n1=full, n2=records.red(), n3=records.unreachable())
    record["hosts"][name] = record["hosts"].pop("n1")
    html = render(record)
    seen, asked, said = browse(tmp_path, html)
    assert asked == []
    assert said == []
    # What the browser made of it is what was written: no element was moved, closed or dropped.
    assert pages.Page(seen).tags == pages.Page(html).tags
    assert name in pages.Page(seen).text


def test_no_table_that_says_what_to_do_or_how_fast_is_cut_on_a_telephone(tmp_path: Path) -> None:
    record = records.fleet()
    record["hosts"]["n02"]["verdict"]["findings"][-1]["summary"] += " and so on" * 20
    # A window has its least width, a frame has any.
    frame = f'<iframe style="width:420px" srcdoc="{escape(render(record))}"></iframe>'
    measure = (
        "<script>onload = () => { const page = document.querySelector('iframe').contentDocument;"
        "page.querySelectorAll('details').forEach(e => e.open = true);"
        "const over = e => e.scrollWidth - e.parentElement.clientWidth;"
        "document.title = [page.documentElement.scrollWidth - 420].concat([...page."
        "querySelectorAll('.latency, .findings, .fleet table, .first')].map(over)).join()}</script>"
    )
    seen, _, said = browse(tmp_path, f"<title>-</title>{frame}{measure}")
    assert said == []
    over = [int(part) for part in re.findall(r"<title>([-\d,]+)</title>", seen)[0].split(",")]
    assert len(over) > 8
    assert max(over) <= 0


def test_healthy_node_prints_on_six_sheets(tmp_path: Path) -> None:
    state, expectation = states.healthy(), states.expectation()
    host = records.live(
        smoke=records.smoke() | {"requests": pages.requests()}, record=document(slow(10)),
        state=state, expectation=expectation, verdict=unstructure(judge(expectation, state)),
    )  # fmt: skip
    browse(tmp_path, render(records.record(n1=host)), f"--print-to-pdf={tmp_path / 'page.pdf'}")
    sheets = re.findall(rb"/Type\s*/Page\b", (tmp_path / "page.pdf").read_bytes())
    assert 1 <= len(sheets) <= 6


def test_browser_would_have_told(tmp_path: Path) -> None:
    bad = '<p><img src="http://fonts.invalid/x.png"></p><script>throw new Error("boom")</script>'
    _, asked, said = browse(tmp_path, bad)
    assert asked == ["http://fonts.invalid/x.png"]
    assert any("boom" in line for line in said)
