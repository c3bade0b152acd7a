"""Text of nodes, peers and files in every place of a record: no terminal and no page is driven."""

from __future__ import annotations

import copy
import gzip
import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from b200kit import cli
from b200kit.report.html.page import render
from b200kit.report.terminal.page import lines
from b200kit.reprovision.ledger import LOG, Ledger, Transactions
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.run import console
from b200kit.store.database import Store
from tests.sample import sample
from tests.unit import states
from tests.unit.report import pages, records
from tests.unit.report.pages import write
from tests.unit.report.test_report_timeline import document, slow

HOSTILE = (
    "x\x1b[2J\x1b]0;t\x07\x9b1m\r\nn9  LIVE\u2028\u202e<script>&\"'</style>{{ 7 * 7 }}\x00\ud800"
)
TEXTS = st.sampled_from([HOSTILE, "\x1b[32mLIVE\x1b[0m", "\nn9  LIVE", "<svg onload=x>"]) | st.text(
    st.characters(), max_size=12
)
_LISTS = (("audit", "show"), ("audit", "verify"), ("transaction", "list"))
MOST = len(sample(range(6), 3))
"""Each is a whole report, written twice."""
_SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=MOST)


def full() -> records.Json:
    """A record of one node of each kind, with every part that a host may have."""
    host = records.live(
        record=document(slow(10)), tuning=pages.tuning(), reprovision=pages.reprovisioned(),
        smoke=records.smoke(stand_in=True) | {"requests": pages.requests(failed=(3,))},
    )  # fmt: skip
    record = records.fleet()
    record["hosts"]["n08"] = host
    record["hosts"]["n02"]["withdrawn"] = {"unmeasured": "x"}
    return record


def leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container and key under which a text stands."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        if isinstance(value[key], dict | list):
            yield from leaves(value[key])
        elif isinstance(value[key], str):
            yield value, key


def spoiled(text: str, part: int, parts: int) -> records.Json:
    """The record with *text* in one part of its places, and for a node's name."""
    record = copy.deepcopy(full())
    kept = ("outcome", "status", "schema", "fit", "verdict", "entry")
    places = [(value, key) for value, key in leaves(record) if key not in kept]
    for value, key in places[part::parts]:
        value[key] = text
    record["hosts"][f"n9{text}"] = record["hosts"].pop("n02")
    return record


def printed(*found: str, colour: bool = False) -> list[str]:
    """What the terminal is given, line by line; each is as long as it is printed."""
    with redirect_stdout(io.StringIO()) as out:
        console.out(*found, colour=colour)
    return out.getvalue().split("\n")[:-1]


@_SETTINGS
@given(text=TEXTS, part=st.integers(0, 4), entry=st.sampled_from(["b200.py", "check.py"]))
@example(text=HOSTILE, part=0, entry="check.py")
def test_no_text_drives_the_terminal_or_forges_a_line(text: str, part: int, entry: str) -> None:
    found = lines({**spoiled(text, part, 5), "entry": entry}, colour=True)
    shown = printed(*found, colour=True)
    # The views themselves leave nothing for the printer to escape: what it got, it prints.
    assert shown == found
    plain = [re.sub(r"\x1b\[(?:0|[\d;]+)m", "", line) for line in shown]
    assert all(line.isprintable() for line in plain)
    assert not any(line.startswith("n9  LIVE") for line in plain)


@_SETTINGS
@given(text=TEXTS, part=st.integers(0, 4))
@example(text=HOSTILE, part=0)
def test_no_text_is_an_element_of_the_page_or_a_file_outside(
    text: str, part: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    record = spoiled(text, part, 5)
    folder = tmp_path_factory.mktemp("reports")
    page = write(record, folder)
    assert [path for path in folder.rglob("*") if path.is_file()] == list(page.parent.iterdir())
    for path in page.parent.iterdir():
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,80}", path.name)
        raw = path.read_bytes()
        content = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
        assert content.replace("\n", "").isprintable()
        assert ".json" not in path.name or json.loads(content)
    found = pages.Page(render(record))
    assert "script" not in found.tags
    assert "49" not in found.text.split()
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]


def run(*arguments: str) -> tuple[str, str]:
    """What a command of b200 prints."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        cli.main(list(arguments))
    return out.getvalue(), err.getvalue()


def harmless(*texts: str) -> None:
    """Nothing but printed characters and line ends, and no line that a text forged."""
    for text in texts:
        assert text.replace("\n", "").isprintable()
        assert not any(line.startswith("n9  LIVE") for line in text.split("\n"))


def test_no_file_that_a_command_reads_drives_the_terminal(tmp_path: Path) -> None:
    safe = HOSTILE.replace("\x00", "").replace("\ud800", "").replace("/", "")
    state = states.recorded("gpu2-no-nvlink")
    for value, key in list(leaves(state)):
        value[key] = value[key] if key in ("schema", "address", "pci_address") else HOSTILE
    recorded = tmp_path / f"{safe}.json"
    recorded.write_text(json.dumps(state))
    for more in ((), ("--json",), ("--topology",)):
        harmless(*run("judge", str(recorded), *more))
    harmless(*run("plan", safe, "--on", str(recorded)))
    harmless(
        *run(safe), *run("judge", safe), *run("report", safe), *run("smoke", safe, "--model", safe)
    )


def test_no_line_of_a_ledger_or_a_record_drives_the_terminal(tmp_path: Path) -> None:
    transactions = Transactions(Store(tmp_path / "b200.db"))
    node = Ledger(transactions, "n1", who=f"ops{HOSTILE[:-1]}", run="r")
    node.claim()
    node.begin([], HOSTILE[:-1], HOSTILE[:-1])
    node.append(IntentLine(step="quarantine", id=HOSTILE[:-1], why=HOSTILE[:-1]))
    there = ("--store", str(transactions.store.path))
    shown = ("transaction", "show", "n1")
    for arguments in (*_LISTS, shown, (*shown, "--json")):
        harmless(*run(*arguments, *there))
    for name in ("n1", HOSTILE[:-1]):
        transactions.store.append(LOG, name, json.dumps({"kind": HOSTILE, "at": HOSTILE}))
    for arguments in _LISTS:
        harmless(*run(*arguments, *there))
    transactions.store.append("record", "n1", json.dumps({"kind": HOSTILE, "at": HOSTILE}))
    harmless(*run("record", "list", *there), *run("record", "show", "n1", *there))
