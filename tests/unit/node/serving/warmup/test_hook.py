"""Warm-up: what a round sends, when it ends, and that it never outlives the engine."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client import client_health
from b200kit.node.lib import journal
from b200kit.node.lib.main_pid import MainPid, MainPidGone
from b200kit.node.serving.warmup import hook
from b200kit.node.serving.warmup.request_shapes import TOKENS, EngineLimits, ladder, shapes
from b200kit.node.serving.warmup.rounds import WarmupRound, relative
from b200kit.node.state.warmup_features import (
    FEATURES,
    LOGPROBS,
    STRUCTURED,
    TOOLS,
    features,
    jit_lines,
)
from tests.lab.standin.chat import Chat, ChatService, Refused
from tests.lab.standin.knobs import Knobs
from tests.lab.standin.wire import Request
from tests.messages import PORT, TOOK, assert_message
from tests.subtests import in_subtests
from tests.unit import serving_document
from tests.unit.node.client.server_thread import fast, running

ROUNDS = re.compile(r"(?<=p50 ).* ms")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No real-time priority, a quiet journal, and records in the test's own directory."""
    monkeypatch.setattr(client_health, "claim_realtime", lambda: "other")
    monkeypatch.setattr(journal, "lines", lambda *_: ["Started vLLM replica 0"])
    monkeypatch.setattr(hook, "RECORDS", tmp_path)


def config(tmp_path: Path, url: str, **plan: object) -> Path:
    """A serving.json with small limits, so that a round is short."""
    # any two rounds agree: the machine that runs the tests may be busy
    warm = {"timeout_s": 60, "tolerance": 1.0, "max_rounds": 3, **plan}
    sizes = {"max_num_seqs": 4, "max_model_len": 512, "max_num_batched_tokens": 256}
    return serving_document.written(tmp_path, url, stand_in=True, warm=warm, **sizes)


def run(
    tmp_path: Path, knobs: Knobs | None = None, pid: int | None = None, **plan: object
) -> tuple[int, dict[str, Any]]:
    """Exit status and record of one warm-up."""
    with running(knobs, max_num_seqs=4, model_len=512) as url:
        path = config(tmp_path, url, **plan)
        main_pid = str(os.getpid() if pid is None else pid)
        status = hook.main(["--config", str(path), "--replica", "0", "--main-pid", main_pid])
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
    assert_message(lines[-1], TOOK=TOOK)
    assert not list(tmp_path.glob(".warm*"))


def test_waiting_says_what_the_engine_last_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ["INFO distributed_init_method=tcp://10.0.0.5:41", "waiting for /health, 5 s so far", ""]
    monkeypatch.setattr(journal, "lines", lambda *_: log)
    monkeypatch.setattr(hook, "SAY_EVERY_S", 0.1)
    monkeypatch.setattr(hook, "PATIENCE_S", 0.5)
    path = config(tmp_path, "http://127.0.0.1:9", timeout_s=2)
    words = ["--config", str(path), "--replica", "0", "--main-pid", str(os.getpid())]
    assert hook.main(words) == 1
    first, *_, last, end = capsys.readouterr().err.splitlines()
    assert "10.0.0.5" not in first
    assert last.endswith("last in its journal: INFO distributed_init_method=tcp://10.0.0.5:41")
    assert end.endswith("last in its journal: INFO distributed_init_method=tcp://10.0.0.5:41")


def test_rounds_that_never_agree_are_not_warm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WarmupRound, "difference", lambda *_: 0.5)
    status, record = run(tmp_path, tolerance=0.1)
    assert status == 1
    assert record["warm"] is False
    assert len(record["rounds"]) == 3
    assert_message(capsys.readouterr().err.splitlines()[-1], TOOK=ROUNDS)


def test_a_main_process_that_is_gone_ends_it_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, record = run(tmp_path, pid=4_194_305)
    assert status == 1
    assert_message(record["problem"])
    assert_message(capsys.readouterr().err)


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
    assert hook.main(args) == 1
    assert_message(capsys.readouterr().err, PORT=PORT)


def test_a_request_that_fails_while_warming_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for fault in ("error-in-stream", "abort"):
        status, record = run(tmp_path, fast(fault))
        assert status == 1
        assert_message(record["problem"])


def test_a_model_of_another_name_is_refused_before_any_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running() as url:
        path = config(tmp_path, url)
        path.write_text(path.read_text().replace('"tiny"', '"other"'))
        args = ["--config", str(path), "--replica", "0", "--main-pid", str(os.getpid())]
        assert hook.main(args) == 1
    assert_message(capsys.readouterr().err, PORT=PORT, TOOK=TOOK)


def test_the_record_falls_back_to_the_units_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "RECORDS", tmp_path / "absent")
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    assert hook.write_record({"warm": True}, 3) == tmp_path / "warm-3.json"
    monkeypatch.delenv("STATE_DIRECTORY")
    assert hook.write_record({"warm": True}, 3) is None


JIT = (
    "(EngineCore pid=7) WARNING [jit_monitor.py:148] Triton compiled during inference: _topk."
    " This causes a latency spike; consider extending warmup to cover this shape/config."
)


def journal_of(*rounds: int) -> Any:
    """A journal that has one JIT line more after a round for each that is given, then no more."""
    seen: list[str] = ["Started vLLM replica 0"]
    due = iter([0, *rounds])

    def lines(invocation: str) -> list[str]:
        assert invocation == "abc"
        seen.extend([JIT] * next(due, 0))
        return list(seen)

    return lines


def test_a_round_in_which_kernels_were_compiled_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INVOCATION_ID", "abc")
    monkeypatch.setattr(journal, "lines", journal_of(5, 2, 0))
    status, record = run(tmp_path, max_rounds=6)
    assert status == 0
    assert [item["jit"] for item in record["rounds"]] == [5, 2, 0]
    assert "2 kernels compiled" in capsys.readouterr().err


def test_kernels_that_never_cease_to_be_compiled_are_not_warm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INVOCATION_ID", "abc")
    monkeypatch.setattr(journal, "lines", journal_of(1, 1, 1))
    status, record = run(tmp_path)
    assert (status, record["warm"]) == (1, False)
    assert_message(record["problem"], TOOK=ROUNDS)


def test_a_journal_that_cannot_be_read_is_not_taken_for_a_quiet_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: str) -> list[str]:
        raise OSError("journalctl exited 1: no journal files were found")

    monkeypatch.setattr(journal, "lines", unreadable)
    status, record = run(tmp_path)
    assert (status, record["rounds"]) == (1, [])
    assert_message(record["problem"])


def test_the_record_has_the_warm_median_and_what_was_sent(tmp_path: Path) -> None:
    prompt = tmp_path / "0.txt"
    prompt.write_text("You answer in one line.")
    status, record = run(tmp_path, features=[STRUCTURED, LOGPROBS], system_prompts=[str(prompt)])
    assert status == 0
    assert record["ttft_ms"] == record["rounds"][-1]["ttft_ms"]
    assert record["features"] == [STRUCTURED, LOGPROBS]
    assert record["system_prompts"] == 1


def test_a_system_prompt_that_is_gone_is_named(tmp_path: Path) -> None:
    status, record = run(tmp_path, system_prompts=["/nowhere/0.txt"])
    assert status == 1
    assert_message(record["problem"])


LIMITS = EngineLimits(12, 2048, 4096)


def test_a_round_climbs_to_max_num_seqs_and_fills_budget_and_context_exactly() -> None:
    sent = {shape.name: shape for shape in shapes(LIMITS, FEATURES, ["a"])}
    assert [shape.count for name, shape in sent.items() if "at once" in name] == [1, 2, 4, 8, 12]
    assert sent["the whole prefill budget"].tokens == 2048
    assert sent["the whole context"].tokens == 4096 - TOKENS
    request = sent["the whole context"].request("m", "salt", "seed", 0)
    assert (request.path, len(request.body()["prompt"])) == ("/v1/completions", 4096 - TOKENS)  # type: ignore[arg-type]
    assert {shape.stream for shape in sent.values()} == {True, False}
    sampled = sent["sampled"].request("m", "salt", "seed", 0).body()
    assert (sampled["temperature"], sampled["top_p"]) == (0.8, 0.9)
    assert list(sent)[-1] == "system prompt 0"


@pytest.mark.parametrize(
    ("limits", "count", "tokens"),
    [
        (EngineLimits(8, 16384, 4096), 5, 3277),
        (EngineLimits(2, 16384, 4096), 2, 4096 - TOKENS),
        (EngineLimits(1, 16, 128), 1, 16),
    ],
)
def test_a_budget_larger_than_the_context_is_filled_by_several_prompts(
    limits: EngineLimits, count: int, tokens: int
) -> None:
    budget = next(shape for shape in shapes(limits, (), ()) if "budget" in shape.name)
    assert (budget.count, budget.tokens) == (count, tokens)
    assert budget.tokens + TOKENS <= limits.max_model_len


def test_no_two_prompts_of_a_round_are_the_same() -> None:
    requests = [
        shape.request("m", "salt", f"seed/{shape.name}", number)
        for shape in shapes(LIMITS, FEATURES, ())
        for number in range(shape.count)
    ]
    assert len({(request.prompt, request.token_ids) for request in requests}) == len(requests)


def test_only_system_prompts_go_without_a_salt() -> None:
    salted = {
        shape.name: "cache_salt" in shape.request("m", "s", "seed", 0).body()
        for shape in shapes(LIMITS, FEATURES, ["a", "b"])
    }
    assert [name for name, salt in salted.items() if not salt] == [
        "system prompt 0",
        "system prompt 1",
    ]


@pytest.mark.parametrize("feature", FEATURES)
def test_what_the_server_does_not_have_is_not_asked_for(feature: str) -> None:
    asked = {STRUCTURED: "response_format", TOOLS: "tools", LOGPROBS: "logprobs"}[feature]

    def bodies(*have: str) -> list[dict[str, object]]:
        return [shape.request("m", "s", "x", 0).body() for shape in shapes(LIMITS, have, ())]

    assert any(asked in body for body in bodies(feature))
    assert not any(asked in body for body in bodies(*(set(FEATURES) - {feature})))


@in_subtests(
    ("flags", "off", "found"),
    [
        ({}, (), [STRUCTURED, LOGPROBS]),
        ({"tool-call-parser": "hermes", "enable-auto-tool-choice": True}, (), list(FEATURES)),
        ({"tool-call-parser": "x", "enable-auto-tool-choice": False}, (), [STRUCTURED, LOGPROBS]),
        ({"max-logprobs": 0}, (), [STRUCTURED]),
        ({"grammar-backend": "none"}, (), [LOGPROBS]),
        ({}, (STRUCTURED, LOGPROBS), []),
    ],
)  # fmt: skip
def test_features_follow_from_flags_and_from_what_is_declared_off(
    flags: dict[str, object], off: tuple[str, ...], found: list[str]
) -> None:
    assert features(flags, off) == found


def test_only_compilations_while_serving_are_counted() -> None:
    quiet = [
        "INFO [jit_monitor.py:87] Kernel JIT monitor activated; monitored JIT compilations during"
        " inference will use mode=warn.",
        "INFO init engine (profile, create kv cache, warmup model) took 12.00 s",
    ]
    autotuned = "Triton autotuning for function _fwd_kernel,\nwith key as (1,), finished after 0.8s"
    assert jit_lines(quiet) == 0
    assert jit_lines([*quiet, JIT, autotuned.replace("\n", " ")]) == 2


def test_a_feature_that_is_refused_is_an_error_and_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept = ChatService.accept

    def without_grammars(service: ChatService, request: Request) -> Chat:
        if b"response_format" in request.body:
            raise Refused(400, "BadRequestError", "no grammar backend")
        return accept(service, request)

    monkeypatch.setattr(ChatService, "accept", without_grammars)
    status, record = run(tmp_path, features=[STRUCTURED])
    assert status == 1
    assert_message(record["problem"])
    assert run(tmp_path, features=[])[0] == 0


@in_subtests("most", [1, 2, 3, 8, 1024])
def test_the_ladder_ends_at_the_most(most: int) -> None:
    steps = ladder(most)
    assert (steps[0], steps[-1]) == (1, most)
    assert steps == sorted(set(steps))


def test_rounds_agree_by_share_or_by_a_difference_too_small_to_matter() -> None:
    assert relative(9.0, 9.9, floor=1.0) == 0.0
    assert relative(100.0, 80.0, floor=1.0) == pytest.approx(0.2)
    first = WarmupRound(1, 30, 1.0, 2683.0, 9.0, 2683.0)
    second = dataclasses.replace(first, number=2, ttft_ms=9.0)
    assert second.difference(first) == pytest.approx(1 - 9 / 2683)
    assert second.difference(second) == 0.0
