"""What a person reads of the smoke test of an endpoint, and what its document is made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from b200kit.node.client.client_health import ClientHealth, ClientLimits
from b200kit.node.client.engine_metrics import ServerFigures
from b200kit.node.client.formulas import Chunk, RequestRecord, Run
from b200kit.node.client.judgement import SmokeEvidence
from b200kit.node.client.smoke_result import RequestFigures, SmokeConditions, SmokeResult
from b200kit.node.latency.document import SmokeRun, each, requests, result
from b200kit.node.state.serving import Objective
from b200kit.node.state.view import Unmeasured
from b200kit.report.terminal.latency import endpoint
from b200kit.report.terminal.lines import Lines
from tests.messages import assert_message, lines_with
from tests.unit import smoke_results

GOAL = Objective(ttft_ms=100, tpot_ms=100)
LOAD = replace(
    smoke_results.result().load,
    arrival="Poisson, 4 requests/s, open loop, no concurrency cap",
    isl_requested=20,
    osl_requested=3,
    seed=5,
    prompts="own texts 1a2b3c4d, distinct by seed; 50% of each shared by 8",
)
CONDITIONS = SmokeConditions("tiny", "0.33.0", 60, GOAL, True, None, None)
SERVER = ServerFigures(9.0, 2.0, 0.04, 0, 0.25, Unmeasured("the servers have no such metric"))
NOTHING = ServerFigures(*(Unmeasured("/metrics answered HTTP 403"),) * 6)


def record(number: int) -> RequestRecord:
    """TTFT 10 ms + number/5, gaps of 2 ms."""
    sent, first = number * 0.25, number * 0.25 + 0.010 + number / 5000
    chunks = tuple(Chunk(first + i * 0.002) for i in range(3))
    return RequestRecord(sent, sent, chunks, 20, 3, "length", chunks[-1].at, None, sent + 0.0005)


def found(samples: int, delay_ms: float = 1.0, **change: Any) -> SmokeResult:
    """What comes of a run of so many requests."""
    values: dict[str, Any] = {
        "paths": {"url": Run(tuple(map(record, range(samples))))},
        "objective": GOAL,
        "health": ClientHealth(delay_ms, 10_000.0, (0.1,) * 100, "rr"),
        "server": SERVER,
        "gateway_limit_ms": 0.0,
    }
    evidence = SmokeEvidence(**(values | change))
    return result(SmokeRun("2026-11-21T20:00:00Z", "url", evidence, "2", LOAD, CONDITIONS))


def printed(smoke: SmokeResult, url: str = "x") -> list[str]:
    """What a person reads of it."""
    page = Lines()
    endpoint(page, url, smoke, "twice alike")
    return page.found


def test_a_run_as_it_is_printed() -> None:
    assert_message(*printed(found(60), "http://x:8000"))


def test_p99_is_printed_when_the_sample_carries_it_and_p95_is_doubted_when_not() -> None:
    many, few = printed(found(300)), printed(found(40))
    [ttft] = [line.split() for line in many if line.split()[:1] == ["TTFT"] and "[" in line]
    assert "-" not in ttft
    assert not any("does not carry" in line for line in many)
    assert_message(*lines_with("\n".join(few), "does not carry P95"))


def test_an_invalid_run_states_no_latency() -> None:
    output = "\n".join(printed(found(60, delay_ms=900.0), "x"))
    assert_message(output)
    assert "P50" not in output
    assert "goodput" not in output


def test_a_failed_correctness_check_leaves_nothing_but_the_verdict() -> None:
    output = printed(found(0, paths={}, correctness=("/v1/models names [], not 'm'", "more")))
    assert output[1:] == [
        "  load        none was sent", "FAIL", "  /v1/models names [], not 'm'", "  more",
    ]  # fmt: skip


def test_what_was_not_measured_is_not_a_number() -> None:
    lost = ClientHealth(None, 10_000.0, (), "other")
    limits = ClientLimits(needs_run_delay=False)
    output = printed(found(60, server=NOTHING, health=lost, limits=limits), "x")
    assert_message(*output)
    assert output[-1] == "PASS"


def test_a_client_that_stood_still_once_is_starved_however_short_the_rest_was() -> None:
    stood = ClientHealth(1.0, 60_000.0, (0.2,) * 999 + (400.0,), "rr")
    output = found(60, health=stood)
    assert output.verdict == "invalid"
    assert_message(*output.reasons)


def test_one_entry_a_request_with_the_cause_of_each_failure() -> None:
    failed = RequestRecord(1.0, 1.5, error="HTTP 503: busy")
    each = requests(Run((record(0), failed)))
    assert each["ttfts"] == [record(0).chunks[0].at, None]
    assert each["queue_times"] == [0.0, 0.5]
    assert each["errors"] == ["", "HTTP 503: busy"]
    assert each["output_lens"] == [3, None]


def test_each_request_is_told_with_its_time_and_its_worst_gap() -> None:
    failed = RequestRecord(0.5, 0.501, error="HTTP 503: busy")
    output = each(Run((record(0), failed)))
    assert output == (
        RequestFigures(0.0, 10.0, 2.0, 2.0, 14.0, None),
        RequestFigures(0.501, None, None, None, None, "HTTP 503: busy"),
    )
    assert found(8).requests == each(Run(tuple(map(record, range(8)))))


def test_requests_beyond_what_a_document_carries_are_thinned_out_evenly() -> None:
    run = Run(tuple(map(record, range(10))))
    assert [entry.at_s for entry in each(run, 4)] == [0.0, 0.75, 1.5, 2.25]
    assert len(each(run, 10)) == 10
    assert each(Run(())) == ()
