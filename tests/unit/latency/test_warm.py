"""Warm-up: what a round sends, when it ends, and that it never outlives the engine."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from deploy.node import starvation, warm
from deploy.node.mainpid import MainPid, MainPidGone
from deploy.node.prompts import Scale
from deploy.node.warm_rounds import Round, relative, shapes
from tests.lab.standin.knobs import Knobs
from tests.unit.latency.server_thread import MODEL, fast, running


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No real-time priority, and records in the test's own directory."""
    monkeypatch.setattr(starvation, "claim_realtime", lambda: "other")
    monkeypatch.setattr(warm, "RECORDS", tmp_path)


def config(tmp_path: Path, url: str, **plan: object) -> Path:
    """A serving.json with small limits, so that a round is short."""
    document = {
        "model": MODEL,
        "engine": "stand-in",
        "stand_in": True,
        "gateway": url,
        "replicas": [{"index": 0, "url": url, "unit": "vllm@0.service"}],
        "max_num_seqs": 4,
        "max_model_len": 512,
        "max_num_batched_tokens": 256,
        # any two rounds agree: the machine that runs the tests may be busy
        "warm": {"timeout_s": 60, "tolerance": 1.0, "max_rounds": 3, **plan},
    }
    path = tmp_path / "serving.json"
    path.write_text(json.dumps(document))
    return path


def run(
    tmp_path: Path, knobs: Knobs | None = None, pid: int | None = None, **plan: object
) -> tuple[int, dict[str, Any]]:
    """Exit status and record of one warm-up."""
    with running(knobs, max_num_seqs=4, model_len=512) as url:
        path = config(tmp_path, url, **plan)
        main_pid = str(os.getpid() if pid is None else pid)
        status = warm.main(["--config", str(path), "--replica", "0", "--main-pid", main_pid])
    return status, json.loads((tmp_path / "warm-0.json").read_text())


def test_two_rounds_that_agree_are_warm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, record = run(tmp_path)
    assert status == 0
    assert record["warm"] is True
    assert [item["number"] for item in record["rounds"]] == [1, 2]
    assert record["engine_version"] == "0.0.0+stand-in"
    assert (record["schema"], record["main_pid"]) == ("b200kit/warm/1", os.getpid())
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].startswith("warm round 1: TTFT p50 ")
    assert "from round 1)" in lines[2]
    assert lines[-1].startswith("replica 0 is warm after ")
    assert not list(tmp_path.glob(".warm*"))


def test_rounds_that_never_agree_are_not_warm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Round, "difference", lambda *_: 0.5)
    status, record = run(tmp_path, tolerance=0.1)
    assert status == 1
    assert record["warm"] is False
    assert len(record["rounds"]) == 3
    assert "no two rounds in a row agree: 3 rounds" in capsys.readouterr().err


def test_a_main_process_that_is_gone_ends_it_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, record = run(tmp_path, pid=4_194_305)
    assert status == 1
    assert record["problem"] == "the main process 4194305 is gone"
    assert "replica 0 is not warm: the main process 4194305 is gone" in capsys.readouterr().err


def test_a_process_that_dies_meanwhile_interrupts_the_work() -> None:
    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE)
        guarded = MainPid(process.pid).guard(asyncio.sleep(3600), every_s=0.01)
        process.kill()
        await process.wait()
        with pytest.raises(MainPidGone, match=str(process.pid)):
            await guarded

    asyncio.run(scenario())


def test_work_that_fails_as_the_process_dies_is_blamed_on_that(tmp_path: Path) -> None:
    async def broken() -> None:
        raise ConnectionError("reset by peer")

    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE)
        main_pid = MainPid(process.pid)
        with pytest.raises(ConnectionError):
            await main_pid.guard(broken(), every_s=0.01)
        process.kill()
        await process.wait()
        with pytest.raises(MainPidGone):
            await main_pid.guard(broken(), every_s=0.01)

    asyncio.run(scenario())


@pytest.mark.parametrize("state", ["Z", "X"])
def test_a_zombie_is_not_alive(tmp_path: Path, state: str) -> None:
    stat = tmp_path / "7" / "stat"
    stat.parent.mkdir()
    line = "7 (VLLM) odd) {} 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {} 0 0\n"
    stat.write_text(line.format("S", 500))
    process = MainPid(7, tmp_path)
    assert process.alive()
    stat.write_text(line.format(state, 500))
    assert not process.alive()
    stat.write_text(line.format("S", 501))
    assert not process.alive()


def test_a_server_that_never_comes_up_times_out_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running() as url:
        pass
    path = config(tmp_path, url, timeout_s=0.3)
    args = ["--config", str(path), "--replica", "0", "--main-pid", str(os.getpid())]
    assert warm.main(args) == 1
    assert "not warm within 0.3 s:" in capsys.readouterr().err


def test_a_request_that_fails_while_warming_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, record = run(tmp_path, fast("error-in-stream"))
    assert status == 1
    assert record["problem"].startswith("a warm-up request (1 at once) failed: error inside")


def test_a_model_of_another_name_is_refused_before_any_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running() as url:
        path = config(tmp_path, url)
        path.write_text(path.read_text().replace('"tiny"', '"other"'))
        args = ["--config", str(path), "--replica", "0", "--main-pid", str(os.getpid())]
        assert warm.main(args) == 1
    assert "/v1/models names ['tiny'], not 'other'" in capsys.readouterr().err


def test_the_record_falls_back_to_the_units_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "RECORDS", tmp_path / "absent")
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    assert warm.write_record({"warm": True}, 3) == tmp_path / "warm-3.json"
    monkeypatch.delenv("STATE_DIRECTORY")
    assert warm.write_record({"warm": True}, 3) is None


def test_a_round_climbs_to_max_num_seqs_and_reaches_the_context_length() -> None:
    sent = shapes(12, 2048, 4096, Scale(1.0, 13.0))
    assert [shape.count for shape in sent if "at once" in shape.name] == [1, 2, 4, 8, 12]
    longest = max(shape.words for shape in sent)
    assert 3000 < longest < 4096 - 16
    assert any(abs(shape.words + 13 - 2048) <= 1 for shape in sent)
    assert {shape.stream for shape in sent} == {True, False}
    assert any(shape.temperature > 0 for shape in sent)


def test_a_tiny_server_still_gets_a_valid_round() -> None:
    sent = shapes(1, 16, 128, Scale())
    assert [shape.count for shape in sent if "at once" in shape.name] == [1]
    assert all(4 <= shape.words <= 100 for shape in sent)


def test_rounds_agree_by_share_or_by_a_difference_too_small_to_matter() -> None:
    assert relative(9.0, 9.9, floor=1.0) == 0.0
    assert relative(100.0, 80.0, floor=1.0) == pytest.approx(0.2)
    first = Round(1, 30, 1.0, 2683.0, 9.0, 2683.0)
    second = dataclasses.replace(first, number=2, ttft_ms=9.0)
    assert second.difference(first) == pytest.approx(1 - 9 / 2683)
    assert second.difference(second) == 0.0
