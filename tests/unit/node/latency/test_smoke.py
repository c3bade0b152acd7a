"""The smoke test from end to end against the stand-in: structure, relations, verdicts."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import pytest

from b200kit.node.client import client_health, correctness
from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import ChatAnswer, ChatRequest, Endpoint, chat
from b200kit.node.client.client_health import ClientHealth, ClientLimits
from b200kit.node.client.judgement import ReplicaComparison
from b200kit.node.client.smoke_result import SmokeResult, TokenCounts
from b200kit.node.latency import gateway_counters, gpu_watch, load_run
from b200kit.node.latency import smoke as measure
from b200kit.node.latency.load_run import Volley
from b200kit.node.lib import boot_clock
from b200kit.node.lib.documents import decode, to_bytes
from b200kit.node.lib.readings import unmeasured
from b200kit.node.serving import processes
from b200kit.node.serving.gateway.haproxy import UNIT
from b200kit.node.state import agent
from b200kit.node.state.agent import AgentState
from b200kit.node.state.view import Unmeasured
from b200kit.node.state.watchdog import ReplicaState
from b200kit.tuning.run import OF_A_CELL
from tests.lab.standin.knobs import Knobs
from tests.messages import assert_message
from tests.unit import serving_document
from tests.unit.node.client.server_thread import MODEL, fast, running


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No real-time priority for the test process, and a client that fared well on any machine.

    What a busy machine does to it is judged over recorded times, in test_judgement.py.
    """
    monkeypatch.setattr(client_health, "claim_realtime", lambda: "other")
    health = ClientHealth(1.0, 10_000.0, (0.1,) * 100, "other")
    monkeypatch.setattr(client_health.Watch, "health", lambda _: health)
    # Requests that go out late, and chunks that come together while there was no CPU to read them.
    patient = partial(ClientLimits, schedule_delay_ms=1e9, coalesced_share=1.0)
    monkeypatch.setattr(measure, "ClientLimits", patient)
    monkeypatch.setattr(gpu_watch, "GONE_S", 300.0)


SMOKE = {
    "requests": 10,
    "rate": 50.0,
    "input_tokens": 40,
    "output_tokens": 6,
    "direct_requests": 4,
    "stall_ms": 60000,
    "gateway_limit_ms": 60000,
    "goodput": {"ttft_ms": 60000, "tpot_ms": 60000, "share": 0.75},
}


def config(tmp_path: Path, url: str, **change: object) -> Path:
    """A serving.json whose only replica and gateway are this server; objectives never missed."""
    return serving_document.written(tmp_path, url, **{"stand_in": True, "smoke": SMOKE, **change})


def smoke(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    knobs: Knobs | None = None,
    *args: str,
    **change: object,
) -> tuple[int, Any]:
    """Exit status and result of one run."""
    with running(knobs) as url:
        path = config(tmp_path, url, **change)
        status = measure.main(["--config", str(path), *args])
    return status, decode(SmokeResult, capsys.readouterr().out)


def test_a_healthy_server_gives_a_whole_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = smoke(tmp_path, capsys, None, "--seed", "5")
    main = found.main
    assert (main.num_prompts, main.completed, main.failed) == (10, 10, 0)
    assert (status, found.verdict) == (0, "pass")
    assert list(found.paths) == ["gateway", "direct-0"]
    assert found.direct["direct-0"].completed == 4
    assert main.total_output_tokens == 60
    assert main.tokens_per_chunk == 1.0
    assert 0 < main.ttft.p50_ms <= main.e2el.p50_ms
    assert main.ttft.p99_ms is None
    assert "needs 299" in main.p99_note
    assert found.gateway_overhead.p50_ttft_ms is not None


def test_conditions_are_measured_not_repeated_from_the_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = smoke(tmp_path, capsys, None, "--seed", "5")
    conditions = found.conditions
    # the stand-in counts a word a token and 13 for its template; the check calibrates to that
    assert conditions.isl_measured == TokenCounts(40, 40.0, 40)
    assert conditions.osl_measured == TokenCounts(6, 6.0, 6)
    assert (found.load.seed, conditions.stand_in) == (5, True)
    assert conditions.engine_version == "0.0.0+stand-in"
    assert found.load.cache_salt.startswith("smoke-")
    assert {"ttft", "itl", "tpot", "e2el"} <= set(found.formulas)


def test_texts_are_sent_and_told_and_a_sweep_may_send_words_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = SMOKE | {"prompts": "texts", "input_tokens": 120}
    _, found = smoke(tmp_path, capsys, None, smoke=long)
    assert found.conditions.isl_measured == TokenCounts(120, 120, 120)
    assert found.load.prompts.startswith("own texts ")
    assert found.main.completed == 10
    _, found = smoke(tmp_path, capsys, None, "--random-words", smoke=long)
    assert found.load.prompts == "own word list, distinct by seed"
    assert found.server.prefix_hit_rate == 0.0


def test_the_servers_own_numbers_are_those_of_the_gateway_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = smoke(tmp_path, capsys)
    assert found.server.preemptions == 0
    assert found.server.prefix_hit_rate == 0.0
    assert 0 < found.server.ttft_mean_ms <= found.main.ttft.mean_ms


def test_what_cannot_be_read_on_this_machine_is_unmeasured_and_nothing_else_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "units", refuse)
    _, found = smoke(tmp_path, capsys)
    assert_message(found.server.jit_warnings.reason)
    for reading in (found.conditions.server_ages_s, found.conditions.libraries):
        assert "is no unit" in reading.reason
    assert "no metric" in found.server.spec_acceptance_rate.reason
    assert [entry.error for entry in found.requests] == [None] * 10


def refuse(names: Sequence[str]) -> NoReturn:
    """systemd knows none of them."""
    raise OSError(f"{names[0]} is no unit")


def test_kernels_compiled_during_the_load_fail_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter((4, 6))
    monkeypatch.setattr(processes, "compiled", lambda _: next(counts))
    status, found = smoke(tmp_path, capsys)
    assert (status, found.server.jit_warnings) == (1, 2)
    assert_message(found.reasons[0])


def test_replicas_are_asked_at_once_at_the_load_that_each_has_through_the_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    volley = Volley(MODEL, 20, 3, Arrival(80.0, even=True), 5, "s")
    asked: set[str] = set()

    async def when_both_are_asked(to: Endpoint, *more: Any) -> ChatAnswer:
        asked.add(to.url)
        async with asyncio.timeout(300):
            while len(asked) < 2:
                await asyncio.sleep(0.001)
        return await chat(to, *more)

    monkeypatch.setattr(load_run, "chat", when_both_are_asked)
    with running() as one, running() as other:
        both = {"direct-0": Endpoint(one), "direct-1": Endpoint(other)}
        found = asyncio.run(volley.fire_at(both, 4, client_health.Watch("other")))
    for run in found.values():
        due = [record.scheduled for record in run.records]
        assert [b - a for a, b in pairwise(due)] == pytest.approx([1 / 40] * 3)
        assert not run.errors


def test_replicas_are_compared_and_too_few_requests_are_no_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One of them may have waited for a CPU longer than the other.
    monkeypatch.setattr(ReplicaComparison, "slower", ())
    prompts: list[str] = []

    async def seen(to: Endpoint, asked: ChatRequest, *more: Any) -> ChatAnswer:
        prompts.append(asked.prompt)
        return await chat(to, asked, *more)

    monkeypatch.setattr(load_run, "chat", seen)
    with running() as other:
        replicas = serving_document.document(other, [(), ()])["replicas"]
        status, found = smoke(tmp_path, capsys, replicas=replicas)
    assert [found.direct[f"direct-{i}"].completed for i in range(2)] == [4, 4]
    assert (status, found.verdict, found.replicas.more) == (2, "invalid", 1)
    # No prompt is sent twice: nothing of it is in a cache.
    assert len(set(prompts)) == len(prompts) > 20


def test_cell_of_a_sweep_is_measured_whatever_its_load_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = {**SMOKE, "stall_ms": 0.001}
    with running() as other:
        replicas = serving_document.document(other, [(), ()])["replicas"]
        given = {"replicas": replicas, "smoke": strict}
        assert smoke(tmp_path, capsys, None, "--direct-requests", "1", **given)[0] == 1
        status, found = smoke(tmp_path, capsys, None, *OF_A_CELL.split(), **given)
    assert (status, found.verdict, found.reasons) == (0, "pass", ())
    assert [found.direct[f"direct-{i}"].completed for i in range(2)] == [1, 1]


def answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *faults: str, **change: Any
) -> tuple[int, Any]:
    """A smoke test of replicas with these faults behind a sound gateway."""
    with ExitStack() as stack:
        urls = [stack.enter_context(running(fast(fault))) for fault in faults]
        replicas = [
            {"index": index, "url": url, "unit": f"vllm@{index}.service", "uuids": []}
            for index, url in enumerate(urls)
        ]
        alike = SMOKE | {"replica_slowdown": None} | change
        return smoke(tmp_path, capsys, None, replicas=replicas, smoke=alike)


def test_replica_that_answers_otherwise_fails_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = answered(tmp_path, capsys, "", "garbled", "")
    assert (status, found.verdict, found.main.num_prompts) == (1, "fail", 0)
    assert_message(*found.reasons)
    assert found.golden.replicas["direct-1"].outcome.word == "different"
    status, found = answered(tmp_path, capsys, "", "", "drifted")
    assert (status, found.verdict, found.main.completed) == (1, "fail", 10)
    assert_message(*found.reasons)


def test_two_replicas_that_differ_are_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for faults in (("", "garbled"), ("drifted", "")):
        status, found = answered(tmp_path, capsys, *faults)
        assert (status, found.verdict) == (2, "invalid")
        assert not found.golden.agreed
    assert_message(*found.reasons)


def test_server_that_says_the_same_to_everything_fails_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = answered(tmp_path, capsys, "parrot")
    assert (status, found.verdict) == (1, "fail")
    assert_message(*found.reasons)


def test_answers_that_cannot_be_read_are_no_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = answered(tmp_path, capsys, "no-logprobs", "no-logprobs")
    assert (status, found.verdict) == (2, "invalid")
    assert_message(*found.reasons)


def test_answers_are_read_of_each_replica_and_not_where_the_inventory_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = answered(tmp_path, capsys, "", "")
    assert (found.golden.requests, found.golden.agreed) == (12, True)
    assert found.golden.answers["direct-1"] == "direct-0"
    _, found = answered(tmp_path, capsys, "", "garbled", golden_tokens=0)
    assert found.verdict == "pass"
    assert_message(found.golden.reason)


def test_it_begins_once_the_agent_has_put_back_what_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "PATH", str(tmp_path / "agent.json"))
    here = boot_clock.now().boot_id

    def known(of: ReplicaState, boot_id: str = here) -> bool:
        of_replicas = {"0": ReplicaState(), "1": of}
        state = AgentState("n01", "1", boot_id, 9.0, "", {}, 60.0, watchdog=of_replicas)
        Path(agent.PATH).write_bytes(to_bytes(state))
        return measure.is_held()

    assert not measure.is_held()
    assert known(ReplicaState(held="GPU 4 has no NVLink"))
    assert known(ReplicaState(out=True))
    assert not known(ReplicaState(out=True, given_up=True))
    assert not known(ReplicaState(out=True), "the one before")
    answers = iter([True, True, False])
    asyncio.run(measure.put_back(lambda: next(answers)))
    assert list(answers) == []
    asyncio.run(measure.put_back(lambda: True, 0.1))


@pytest.mark.parametrize(
    "fault", ["503", "error-in-stream", "no-usage", "wrong-usage", "no-finish", "cut-off"]
)
def test_a_fault_fails_the_correctness_check_and_no_load_is_sent(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = smoke(tmp_path, capsys, fast(fault))
    assert (status, found.verdict) == (1, "fail")
    assert_message(*found.reasons)
    assert found.main.num_prompts == 0
    assert_message(found.server.preemptions.reason)


def test_one_failure_among_the_measured_requests_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.lab.standin.chat._numbers", iter(range(1, 1000)))
    status, found = smoke(tmp_path, capsys, fast("cut-off", fault_at=15))
    assert (status, found.main.failed) == (1, 1)
    assert_message(*found.reasons)


def test_server_that_refuses_ignore_eos_is_measured_by_what_it_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = smoke(tmp_path, capsys, fast("refuses-ignore-eos"))
    assert (found.main.completed, found.main.failed) == (10, 0)
    assert found.load.sampling.ignore_eos is False
    assert found.conditions.osl_measured == TokenCounts(5, 5.0, 5)


def test_a_starved_client_is_invalid_not_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    starved = ClientHealth(900.0, 1000.0, (0.1,), "other")
    monkeypatch.setattr(client_health.Watch, "health", lambda _: starved)
    status, found = smoke(tmp_path, capsys)
    assert (status, found.verdict) == (2, "invalid")
    assert found.client.starved
    assert "client starved" in found.reasons[0]


def test_nobody_serving_is_a_failed_document_not_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running() as url:
        path = config(tmp_path, url)
    assert measure.main(["--config", str(path)]) == 1
    found = decode(SmokeResult, capsys.readouterr().out)
    assert "cannot connect" in found.reasons[0]
    assert found.main.ttft.p50_ms is None


@pytest.mark.parametrize(
    "change",
    [
        {"max_num_seqs": "8"},
        {"replicas": {}},
        {"smoke": {"goodput": {"itl_ms": 3}}},
        {"smoke": {"rate": 0}},
        {"api_key_file": "/nonexistent/key"},
        {"max_model_len": 40},
        {"smoke": {"prompts": "/nowhere"}},
        {"smoke": {"turns": 2}},
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_line(
    change: dict[str, object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = config(tmp_path, "http://127.0.0.1:9", **change)
    assert measure.main(["--config", str(path)]) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert_message(caught.err)
    assert caught.err.count("\n") == 1


def test_a_missing_key_or_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "serving.json"
    assert measure.main(["--config", str(path)]) == 2
    path.write_text("{}")
    assert measure.main(["--config", str(path)]) == 2
    path.write_text("{")
    assert measure.main(["--config", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "No such file" in lines[0]
    assert_message(lines[1])
    assert "not JSON" in lines[2]


def test_the_key_comes_from_the_units_credentials_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "api_key").write_text("k-cred\n")
    with running(key="k-cred") as url:
        path = config(tmp_path, url, api_key_file=str(tmp_path / "absent"))
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
        assert correctness.main(["--config", str(path)]) == 0
    out = capsys.readouterr().out
    assert "k-cred" not in out


def test_the_correctness_check_says_which_model_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running() as url:
        path = config(tmp_path, url, model="other")
        assert correctness.main(["--config", str(path), "--replica", "0"]) == 1
        assert correctness.main(["--config", str(path), "--replica", "7"]) == 2
    caught = capsys.readouterr()
    assert_message(*json.loads(caught.out)["problems"])
    assert_message(caught.err)


def test_so_many_requests_are_sent_as_were_asked_and_too_few_are_no_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = SMOKE | {"goodput": {"ttft_ms": 60000, "tpot_ms": 60000, "share": 0.95}}
    status, found = smoke(tmp_path, capsys, smoke=strict)
    assert (found.main.num_prompts, found.conditions.requests, status) == (10, 10, 2)
    status, found = smoke(tmp_path, capsys, None, "--any-load", smoke=strict)
    assert (found.main.num_prompts, found.replicas, status) == (10, None, 0)


WAITED_NS = {"11": (4_000_000, 5_000_000), "12": (1_000_000, 301_000_000), "21": (0, 60_000_000)}
"""Nanoseconds that each thread of two processes had waited for a CPU, at first and later."""


def schedstat(proc: Path, moment: int) -> None:
    """Let the kernel tell of those threads as it documents it."""
    for thread, waited in WAITED_NS.items():
        folder = proc / f"{thread[0]}0" / "task" / thread
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"123456789 {waited[moment]} 42\n")


def gateway_is(monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
    """The gateway's unit holds these processes."""
    found = {UNIT: {"ControlGroup": "/gateway"}}
    monkeypatch.setattr(
        gateway_counters, "units", lambda names: {name: found[name] for name in names}
    )
    monkeypatch.setattr(gateway_counters, "members", lambda group: [*pids] if group else [])


def test_thread_that_waits_most_is_what_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway_is(monkeypatch, 10, 20)
    monkeypatch.setattr(gateway_counters, "PROC", tmp_path)
    schedstat(tmp_path, 0)
    before = gateway_counters.delays_ms()
    schedstat(tmp_path, 1)
    after = gateway_counters.delays_ms()
    assert before == {"11": 4.0, "12": 1.0, "21": 0.0}
    assert gateway_counters.share(before, after, 600.0) == 0.5


def test_every_thread_of_a_real_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As this kernel writes it, not as we think that it does."""
    gateway_is(monkeypatch, os.getpid())
    found = gateway_counters.delays_ms()
    assert set(found) >= {str(os.getpid())}
    assert all(isinstance(waited, float) and waited >= 0 for waited in found.values())


def test_process_that_sleeps_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as idle:
        try:
            while "(sleep) S" not in Path(f"/proc/{idle.pid}/stat").read_text():
                time.sleep(0.01)
            gateway_is(monkeypatch, idle.pid)
            before = gateway_counters.delays_ms()
            time.sleep(0.2)
            assert gateway_counters.share(before, gateway_counters.delays_ms(), 200.0) == 0
        finally:
            idle.kill()


def test_gateway_that_does_not_run_is_unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway_is(monkeypatch)
    assert_message(gateway_counters.delays_ms()["unmeasured"])


def test_gateway_of_other_threads_than_before_is_unmeasured() -> None:
    found = gateway_counters.share({"1": 0.0}, {"2": 5.0}, 100.0)
    assert isinstance(found, Unmeasured)
    assert_message(found.reason)
    assert gateway_counters.share({"1": 1.0, "2": 3.0}, {"1": 2.0, "2": 53.0}, 100.0) == 0.5


@pytest.mark.parametrize("order", [1, -1])
def test_what_could_not_be_read_stays_so(order: int) -> None:
    before, after = [unmeasured("no such unit"), {"1": 0.0}][::order]
    assert gateway_counters.share(before, after, 100.0) == Unmeasured("no such unit")
