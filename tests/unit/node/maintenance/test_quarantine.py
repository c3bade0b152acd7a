"""The node's own mark: written whole, kept over everything but a release, gone with one."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from b200kit.node.lib import timestamp
from b200kit.node.maintenance import quarantine
from b200kit.node.serving.gateway import drain
from tests.messages import TIME, assert_message


@pytest.fixture(autouse=True)
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the mark lies here."""
    path = tmp_path / "state" / "quarantine.json"
    for act in ("read", "put", "admit", "shut", "release", "show"):
        function = getattr(quarantine, act)
        kept = tuple(path if d is quarantine.PATH else d for d in function.__defaults__)
        monkeypatch.setattr(function, "__defaults__", kept)
    return path


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often the gateway was opened again."""
    times: list[str] = []

    def end() -> str:
        times.append("end")
        return ""

    monkeypatch.setattr(drain, "end", end)
    return times


def test_mark_says_who_when_and_why(mark: Path) -> None:
    assert quarantine.main(["put", "--who", "alice@ops", "--why", "no NVLink"]) == 0
    kept = json.loads(mark.read_text())
    assert (kept["who"], kept["why"], kept["trial"]) == ("alice@ops", "no NVLink", None)
    assert kept["since"] == kept["when"]


def test_put_without_a_reason_is_refused(mark: Path) -> None:
    with pytest.raises(SystemExit) as left:
        quarantine.main(["put", "--why", " "])
    assert left.value.code == 2
    assert not mark.exists()


def test_damaged_mark_can_be_replaced_and_released_but_not_admitted(
    mark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark.parent.mkdir()
    mark.write_text("{")
    assert quarantine.main(["admit", "--who", "alice@ops"]) == 1
    assert quarantine.main(["show"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert quarantine.main(["put", "--why", "damaged"]) == 0
    assert json.loads(mark.read_text())["why"] == "damaged"
    mark.write_text("{")
    assert quarantine.main(["release"]) == 0
    assert not mark.exists()


def test_trial_opens_the_gateway_and_shut_ends_the_trial(mark: Path, ended: list[str]) -> None:
    quarantine.main(["put", "--why", "no NVLink"])
    assert quarantine.main(["admit", "--who", "bob@ops", "--for", "60"]) == 0
    trial = json.loads(mark.read_text())["trial"]
    assert trial["who"] == "bob@ops"
    since, until = timestamp.parse(trial["since"]), timestamp.parse(trial["until"])
    assert timedelta(seconds=60) <= until - since <= timedelta(seconds=61)
    assert ended == ["end"]
    assert quarantine.main(["shut"]) == 0
    assert json.loads(mark.read_text())["trial"] is None


@pytest.mark.parametrize("act", ["admit", "shut", "release", "show"])
def test_node_in_service_stays_so(
    mark: Path, ended: list[str], act: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quarantine.main([act]) == 0
    assert capsys.readouterr().out == "in service\n"
    assert not mark.exists()
    assert ended == []


def test_release_tells_what_it_was(mark: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quarantine.main(["put", "--who", "alice@ops", "--why", "no NVLink"])
    quarantine.main(["release", "--who", "bob@ops"])
    text = capsys.readouterr().out
    assert_message(text, TIME=TIME)
    assert not mark.exists()
