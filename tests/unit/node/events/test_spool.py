"""The spool: what waits, how much of it, and that nobody fails for it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from b200kit.node.events.config import load
from b200kit.node.events.spool import Spool
from b200kit.node.lib import boot_clock
from b200kit.node.state.event import Event
from tests.subtests import in_subtests

TOLD = Event("replica.out", "out of the gateway", "watchdog.replicas", "vllm@0.service", (0,))
CONFIG = {"node": "n01", "kept": 3, "deadline_s": 1, "command": [], "webhook": False, "ca_file": ""}


def spool(folder: Path, **changes: object) -> Spool:
    """An empty one, whose site wants to be told."""
    (folder / "events.json").write_text(json.dumps(CONFIG | changes))
    return Spool(folder / "events", folder / "events.json")


def test_an_event_says_which_it_is_and_of_when_and_where(tmp_path: Path) -> None:
    here = spool(tmp_path)
    here.put(TOLD)
    here.put(TOLD)
    first, second = (here.read(name) for name in here.names())
    assert first
    assert second
    assert (first.node, first.replicas) == ("n01", (0,))
    assert first.id < second.id
    assert first.boot_id in first.id


def test_a_step_of_the_time_of_day_changes_neither_age_nor_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NTP a day forward; a boot whose clock was years ahead."""
    here = spool(tmp_path)
    for now in (time.time() + 1e9, time.time(), time.time() + 90_000):
        monkeypatch.setattr(time, "time_ns", lambda now=now: int(now * 1e9))
        monkeypatch.setattr(time, "time", lambda now=now: now)
        here.put(TOLD)
    ids = [event.id for name in here.names() if (event := here.read(name))]
    assert (len(ids), ids) == (3, sorted(ids))
    assert max(here.age_s(name) for name in here.names()) < 3600
    # The next boot counts from its own beginning.
    monkeypatch.setattr(boot_clock, "now", lambda: boot_clock.Moment("another", 90_000.0))
    assert {here.age_s(name) for name in here.names()} == {90_000.0}


def test_a_file_of_another_form_costs_no_event_and_ages_with_the_boot(tmp_path: Path) -> None:
    here = spool(tmp_path, kept=9)
    here.put(TOLD)
    boot = boot_clock.now()
    for name in ("9.json", f"9-{boot.boot_id.replace('-', '')}-late.json", "9-9-9-9.json"):
        (here.directory / name).write_text("{}")
        assert boot.seconds <= here.age_s(name) < boot.seconds + 60
    here.put(TOLD)
    assert sum(here.read(name) is not None for name in here.names()) == 2


def test_nobody_to_tell_keeps_nothing(tmp_path: Path) -> None:
    Spool(tmp_path / "events", tmp_path / "none.json").put(TOLD)
    assert list(tmp_path.iterdir()) == []


def test_of_too_many_the_oldest_are_dropped_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = spool(tmp_path)
    here.put(TOLD)
    oldest = here.names()[0]
    for _ in range(4):
        here.put(TOLD)
    assert (len(here.names()), here.dropped()) == (3, 2)
    assert oldest not in here.names()
    assert capsys.readouterr().err.count("is dropped") == 2


@in_subtests(("config", "spool_is"), [("{", "absent"), ("[]", "absent"), ("", "a file")])
def test_what_cannot_be_kept_is_a_line_and_no_error(
    config: str, spool_is: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = spool(tmp_path)
    if config:
        here.config.write_text(config)
    if spool_is == "a file":
        here.directory.write_text("")
    capsys.readouterr()
    here.put(TOLD)
    assert capsys.readouterr().err.count("\n") == 1
    assert here.names() == []


def test_a_plan_that_lacks_a_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(json.dumps({k: v for k, v in CONFIG.items() if k != "kept"}))
    with pytest.raises(ValueError, match="kept"):
        load(path)
