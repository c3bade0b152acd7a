"""The log of all acts: what was changed, taken away, moved or cut off is found."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from b200kit.cli.audit import INTACT, command
from b200kit.reprovision import audit, ledger
from b200kit.reprovision.ledger import Ledger
from b200kit.reprovision.ledger_line import AuditLine
from b200kit.reprovision.states import State
from b200kit.run import chain
from b200kit.run.places import safe_name
from tests.messages import assert_message
from tests.subtests import in_subtests


def action(node: str, what: str) -> AuditLine:
    serving = State.SERVING
    return AuditLine(node=node, kind="claim", before=serving, after=serving, what=what)


def log(count: int = 5) -> tuple[list[bytes], dict[str, list[str]]]:
    """Lines of acts on two nodes in turn, and each node's digests."""
    lines, known, last = [], {"n1": [], "n2": []}, ""  # type: ignore[var-annotated]
    for number in range(count):
        node = f"n{1 + number % 2}"
        text, last = chain.line(action(node, f"act {number}"), last)
        lines.append(text.encode())
        known[node].append(last)
    return lines, known


def faults(lines: list[bytes], known: dict[str, list[str]]) -> list[str]:
    return audit.verify(b"".join(lines), known)


def test_untouched_log_is_whole() -> None:
    assert faults(*log()) == []
    assert audit.verify(b"", {}) == []


@in_subtests("number", range(5))
def test_changed_act_is_found_where_it_is(number: int) -> None:
    lines, known = log()
    lines[number] = lines[number].replace(b"act", b"ACTION")
    assert_message(faults(lines, known)[0])


@in_subtests("number", range(5))
def test_act_that_was_changed_and_signed_again_is_found(number: int) -> None:
    lines, known = log()
    entry = json.loads(lines[number])
    forged, _ = chain.line(
        {k: v for k, v in entry.items() if k not in ("digest", "previous")} | {"what": "nothing"},
        entry["previous"],
    )
    lines[number] = forged.encode()
    assert faults(lines, known)


@in_subtests("number", range(5))
def test_act_that_was_taken_away_is_found_the_last_one_too(number: int) -> None:
    lines, known = log()
    del lines[number]
    found = faults(lines, known)
    assert found
    assert f"n{1 + number % 2}: 1 of the" in found[-1]


@pytest.mark.parametrize("number", range(4))
def test_acts_in_another_order_are_found(number: int) -> None:
    lines, known = log()
    lines[number], lines[number + 1] = lines[number + 1], lines[number]
    assert any("does not follow" in line for line in faults(lines, known))


def test_act_that_was_put_in_is_found() -> None:
    lines, known = log()
    extra, _ = chain.line(action("n1", "more"), json.loads(lines[1])["digest"])
    assert faults([*lines[:2], extra.encode(), *lines[2:]], known)


def test_end_that_was_cut_off_is_found_by_the_transactions() -> None:
    lines, known = log()
    assert chain.parse(dict, b"".join(lines[:3])).damage == ()
    found = faults(lines[:3], known)
    assert [line.split(":")[0] for line in found] == ["n1", "n2"]
    assert_message(*found)


def test_line_that_a_kill_cut_short_is_told() -> None:
    lines, known = log()
    assert_message(*faults([*lines, b'{"node": "n1", "wha'], known))


def test_log_of_one_node_passed_off_as_anothers_is_found() -> None:
    lines, known = log()
    assert faults(lines, {"n1": known["n2"]})


@in_subtests("cut", [1, 2])
def test_end_of_a_nodes_file_that_was_cut_off_is_found_by_the_log(cut: int) -> None:
    lines, known = log()
    del known["n1"][-cut:]
    found = faults(lines, known)
    assert [line.split(":")[0] for line in found] == ["n1"]
    assert f"{cut} of the log's 3 actions" in found[0]
    assert_message(*found)


def test_file_of_a_node_that_is_gone_is_found_by_the_log() -> None:
    lines, known = log()
    del known["n2"]
    assert_message(*faults(lines, known))


def test_node_whose_name_is_no_file_name_is_the_same_node() -> None:
    text, digest = chain.line(action("rack 1/n1", "act"), "")
    assert audit.verify(text.encode(), {safe_name("rack 1/n1"): [digest]}) == []


def test_log_that_grows_while_it_is_verified_is_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller at work writes between what is read of the log and of its node."""
    owner = Ledger(tmp_path, "n1", "alice@one pid 1", "hers")
    owner.claim()
    writer = threading.Thread(target=owner.begin, args=([], "broken", ""))
    known = ledger.nodes

    def nodes(folder: Path) -> list[str]:
        writer.start()
        writer.join(0.3)
        return known(folder)

    monkeypatch.setattr(ledger, "nodes", nodes)
    asked = ["verify", "--transactions", str(tmp_path), "--reports", str(tmp_path / "none")]
    done = CliRunner().invoke(command, asked, standalone_mode=False)
    writer.join()
    owner.release()
    assert done.return_value == INTACT, done.output
    assert len(ledger.lines(tmp_path, "n1").entries) == 3
