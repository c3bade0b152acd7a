"""The rule for a measurement: what fails, what invalidates, what passes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from b200kit.node.client import judgement
from b200kit.node.client.client_health import ClientHealth, ClientLimits
from b200kit.node.client.engine_metrics import ServerFigures
from b200kit.node.client.formulas import Chunk, RequestRecord, Run
from b200kit.node.client.golden.answer import Answer
from b200kit.node.client.golden.replicas import Golden
from b200kit.node.client.judgement import (
    GatewayOverhead,
    GoodputShare,
    Judgement,
    LowLoad,
    SmokeEvidence,
    compare,
    gateway_overhead,
    share_of,
)
from b200kit.node.client.percentiles import proportion
from b200kit.node.state.serving import Objective
from b200kit.node.state.view import Unmeasured
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.node.client import golden_answers

CALM = ClientHealth(2.0, 10_000.0, (0.1,) * 200, "rr")
SLO = Objective(ttft_ms=100, tpot_ms=100)


def judge(
    paths: Mapping[str, Run], objective: Objective, health: ClientHealth, **more: Any
) -> Judgement:
    """The verdict on these."""
    given = {name: value for name, value in more.items() if value is not None}
    return judgement.judge(SmokeEvidence(paths, objective, health, **given))


def stream(number: int, ttft: float = 0.01, gap: float = 0.002, tokens: int = 8) -> RequestRecord:
    """A correct answer, sent on time."""
    sent = number * 0.25
    times = [sent + ttft + i * gap for i in range(tokens)]
    chunks = tuple(Chunk(at) for at in times)
    return RequestRecord(sent, sent, chunks, 20, tokens, "length", times[-1])


def run(**kind: float) -> Run:
    """Forty such answers."""
    return Run(tuple(stream(i, **kind) for i in range(40)))  # type: ignore[arg-type]


GOOD = {"gateway": run(ttft=0.011), "direct-0": run()}


def test_all_well_is_a_pass_without_reasons() -> None:
    assert judge(GOOD, SLO, CALM, server=ServerFigures(itl_mean_ms=2.0)).verdict == "pass"
    assert judge(GOOD, SLO, CALM).reasons == ()


def test_one_failed_request_fails_and_says_which_path_and_why() -> None:
    records = GOOD["direct-0"].records
    paths = {**GOOD, "direct-0": Run((replace(records[0], error="HTTP 503: busy"), *records[1:]))}
    found = judge(paths, SLO, CALM)
    assert found.verdict == "fail"
    assert_message(*found.reasons)


def test_a_failure_is_a_failure_even_when_the_client_starved() -> None:
    starved = ClientHealth(5000.0, 10_000.0, (), "other")
    assert (
        judge(GOOD, SLO, starved, correctness=("/v1/models names [], not 'x'",)).verdict == "fail"
    )


@pytest.mark.parametrize(
    "health",
    [
        ClientHealth(501.0, 10_000.0, (0.1,), "other"),
        ClientHealth(0.0, 10_000.0, (0.1,) * 50 + (40.0,) * 50, "rr"),
        ClientHealth(None, 10_000.0, (0.1,), "rr"),
    ],
)
def test_a_starved_client_invalidates(health: ClientHealth) -> None:
    found = judge(GOOD, SLO, health)
    assert found.verdict == "invalid"
    assert_message(found.reasons[0])
    assert health.figures(ClientLimits(), "0").starved


def test_run_delay_at_the_limit_is_not_starvation() -> None:
    assert ClientHealth(500.0, 10_000.0, (), "other").starved(ClientLimits()) == []
    assert CALM.figures(ClientLimits(), "0").starved is False


def test_an_unreadable_run_delay_is_a_reading_with_a_reason() -> None:
    found = ClientHealth(None, 1.0, (), "other").figures(ClientLimits(), "0")
    assert found.run_delay_ms == Unmeasured("schedstat not readable")
    assert found.loop_lag_ms_p99 == Unmeasured("no samples")


def test_requests_sent_late_invalidate() -> None:
    late = Run(tuple(replace(r, scheduled=r.scheduled - 0.2) for r in GOOD["gateway"].records))
    found = judge({**GOOD, "gateway": late}, SLO, CALM)
    assert found.verdict == "invalid"
    assert "200 ms late" in found.reasons[0]


def test_a_gateway_that_buffers_fails_and_direct_shows_it() -> None:
    paths = {**GOOD, "gateway": run(ttft=0.03, gap=0.00001)}
    found = judge(paths, SLO, CALM, server=ServerFigures(itl_mean_ms=2.0))
    assert found.verdict == "fail"
    assert "buffers the stream" in found.reasons[0]


@pytest.mark.parametrize("waited", [0.05, 0.0, Unmeasured("haproxy.service does not run")])
def test_a_gateway_that_had_its_cpu_or_did_not_tell_is_said_to_buffer(
    waited: Unmeasured | float,
) -> None:
    paths = {**GOOD, "gateway": run(ttft=0.03, gap=0.00001)}
    server = ServerFigures(itl_mean_ms=2.0, gateway_run_delay_share=waited)
    assert "buffers the stream" in judge(paths, SLO, CALM, server=server).reasons[0]
    server = replace(server, queue_mean_ms=0.1, ttft_mean_ms=10.0)
    assert_message(*judge(BEHIND, SLO, CALM, server=server).reasons)


def test_a_gateway_without_a_cpu_fails_by_that_name() -> None:
    server = ServerFigures(itl_mean_ms=2.0, gateway_run_delay_share=0.12)
    paths = {**GOOD, "gateway": run(ttft=0.03, gap=0.00001)}
    found = judge(paths, SLO, CALM, server=server)
    assert found.verdict == "fail"
    assert_message(found.reasons[0])
    late = judge(BEHIND, SLO, CALM, server=server)
    assert_message(*late.reasons)


def test_chunks_that_come_together_everywhere_invalidate() -> None:
    together = run(gap=0.00001)
    found = judge(
        {"gateway": together, "direct-0": together},
        SLO,
        CALM,
        server=ServerFigures(itl_mean_ms=2.0),
    )
    assert found.verdict == "invalid"


def test_chunks_together_are_not_believed_of_a_server_whose_own_itl_is_not_known() -> None:
    together = run(gap=0.00001)
    assert judge({"url": together}, SLO, CALM).verdict == "invalid"
    assert judge({"url": run()}, SLO, CALM).verdict == "pass"


def test_a_client_that_stood_still_once_invalidates() -> None:
    stood = ClientHealth(2.0, 60_000.0, (0.1,) * 5000 + (400.0,), "rr")
    found = judge(GOOD, SLO, stood)
    assert found.verdict == "invalid"
    assert_message(found.reasons[0])
    assert ClientHealth(2.0, 60_000.0, (0.1,) * 5000 + (250.0,), "rr").starved(ClientLimits()) == []


def test_what_a_noisy_machine_does_is_no_fault_of_a_node_and_what_a_server_does_still_is() -> None:
    busy = ClientHealth(900.0, 1000.0, (150.0, 800.0), "other")
    noisy = ClientLimits().times(100.0)
    late = {
        "gateway": Run(tuple(replace(one, sent=one.sent + 1.0) for one in GOOD["gateway"].records))
    }
    assert judge(GOOD, SLO, busy).verdict == "invalid"
    assert judge(GOOD, SLO, busy, limits=noisy).verdict == "pass"
    assert judge(late, Objective(ttft_ms=9000.0), CALM).verdict == "invalid"
    assert judge(late, Objective(ttft_ms=9000.0), CALM, limits=noisy).verdict == "pass"
    assert judge(GOOD, Objective(ttft_ms=0.1), busy, limits=noisy).verdict == "fail"
    assert judge({"gateway": run(gap=0.0)}, SLO, CALM, limits=noisy).verdict == "invalid"


def test_without_noise_the_limits_are_a_nodes() -> None:
    assert ClientLimits().times(1.0) == ClientLimits()


def test_a_system_that_has_no_run_delay_is_judged_by_its_event_loop() -> None:
    limits = ClientLimits(needs_run_delay=False)
    assert (
        judge(GOOD, SLO, ClientHealth(None, 1e4, (0.1,), "other"), limits=limits).verdict == "pass"
    )
    lagging = ClientHealth(None, 1e4, (40.0,), "other")
    assert judge(GOOD, SLO, lagging, limits=limits).verdict == "invalid"


def test_a_model_that_is_truly_that_fast_is_not_accused() -> None:
    fast = run(gap=0.00001)
    paths = {"gateway": fast, "direct-0": fast}
    assert judge(paths, SLO, CALM, server=ServerFigures(itl_mean_ms=0.01)).verdict == "pass"


def test_a_missed_objective_fails_with_the_count() -> None:
    slow = {"gateway": run(ttft=0.15), "direct-0": run(ttft=0.15)}
    found = judge(slow, SLO, CALM)
    assert found.verdict == "fail"
    assert_message(*found.reasons)


@pytest.mark.parametrize(
    ("good", "verdict"), [(60, "pass"), (59, "pass"), (57, "invalid"), (45, "fail")]
)
def test_share_over_the_objective_is_judged_by_its_interval(good: int, verdict: str) -> None:
    records = [stream(k, ttft=0.01 if k < good else 0.5) for k in range(60)]
    paths = {"gateway": Run(tuple(records)), "direct-0": run()}
    found = judge(paths, SLO, CALM)
    assert found.verdict == verdict
    assert_message(*found.reasons)
    # A sweep weighs its loads itself: there the sample alone is told.
    assert judge(paths, SLO, CALM, any_load=True).verdict == ("fail" if good < 57 else "pass")
    assert judge(paths, Objective(), CALM).verdict == "pass"


def test_gateway_minus_direct_is_reported_and_limited() -> None:
    paths = {"gateway": run(ttft=0.09), "direct-0": run(ttft=0.01)}
    assert gateway_overhead(paths).p50_ttft_ms == pytest.approx(80.0)
    found = judge(paths, SLO, CALM)
    assert found.verdict == "fail"
    assert "gateway adds 80 ms" in found.reasons[0]


BEHIND = {"gateway": run(ttft=0.09), "direct-0": run(ttft=0.01)}


def test_the_gateway_is_not_blamed_for_the_servers_queue() -> None:
    queued = ServerFigures(queue_mean_ms=60.0, ttft_mean_ms=80.0)
    found = judge(BEHIND, SLO, CALM, server=queued)
    assert found.verdict == "fail"
    assert_message(*found.reasons)


def test_the_gateway_is_blamed_where_the_servers_do_not_queue() -> None:
    idle = ServerFigures(queue_mean_ms=0.1, ttft_mean_ms=10.0)
    assert judge(BEHIND, SLO, CALM, server=idle).reasons[0].endswith("http-no-delay)")
    for server in (ServerFigures(ttft_mean_ms=10.0), None):
        reasons = judge(BEHIND, SLO, CALM, server=server).reasons
        assert_message(reasons[0])


@pytest.mark.parametrize(
    "paths",
    [
        {"gateway": run(ttft=0.5), "direct-0": run()},
        {"gateway": run(ttft=0.09), "direct-0": run()},
        {"gateway": run(gap=0.5), "direct-0": run(gap=0.5)},
    ],
)
def test_what_is_missed_while_others_are_served_is_not_measured(paths: dict[str, Run]) -> None:
    server = ServerFigures(itl_mean_ms=2.0, other_requests=0)
    assert judge(paths, SLO, CALM, server=server).verdict == "fail"
    found = judge(paths, SLO, CALM, server=replace(server, other_requests=412))
    assert found.verdict == "invalid"
    assert_message(found.reasons[0])


def test_objective_that_is_met_while_others_are_served_is_met() -> None:
    assert judge(GOOD, SLO, CALM, server=ServerFigures(other_requests=412)).verdict == "pass"


def test_wrong_answer_is_no_fault_of_others() -> None:
    server = ServerFigures(other_requests=412)
    assert judge(GOOD, SLO, CALM, server=server, correctness=("wrong",)).verdict == "fail"


@pytest.mark.parametrize("server", [ServerFigures(preemptions=3), ServerFigures(jit_warnings=2)])
def test_servers_that_strain_at_a_low_load_fail(server: ServerFigures) -> None:
    found = judge(GOOD, SLO, CALM, server=server, low_load=LowLoad())
    assert found.verdict == "fail"
    assert_message(found.reasons[0])
    assert judge(GOOD, SLO, CALM, server=server).verdict == "pass"  # at a load that is anybody's


def test_servers_at_ease_pass() -> None:
    calm = ServerFigures(preemptions=0, jit_warnings=0)
    assert judge(GOOD, SLO, CALM, server=calm, low_load=LowLoad()).verdict == "pass"


SOUND = golden_answers.answers()
DRIFTED = golden_answers.changed(golden_answers.less_sure(1.0))
WRONG = golden_answers.changed(golden_answers.another)
OTHERS = ServerFigures(other_requests=3)


def said(*answers: Sequence[Answer]) -> Golden:
    """Replicas that answered so."""
    whole = {f"direct-{n}": golden_answers.replies(one) for n, one in enumerate(answers)}
    return Golden(whole, 8)


@pytest.mark.parametrize(
    ("golden", "server", "verdict"),
    [
        (said(SOUND, SOUND, SOUND), None, "pass"),
        (said(SOUND, WRONG, SOUND), None, "fail"),
        (said(SOUND, WRONG, SOUND), OTHERS, "fail"),
        (said(SOUND, DRIFTED, SOUND), None, "fail"),
        (said(SOUND, DRIFTED, SOUND), OTHERS, "invalid"),
        (said(SOUND, WRONG), None, "invalid"),
        (said(SOUND, DRIFTED), OTHERS, "invalid"),
    ],
)
def test_answers_decide_and_what_others_may_have_done_is_not_blamed(
    golden: Golden, server: ServerFigures | None, verdict: str
) -> None:
    assert judge(GOOD, SLO, CALM, server=server, golden=golden).verdict == verdict


def test_starved_client_excuses_no_wrong_answer() -> None:
    starved = ClientHealth(5000.0, 10_000.0, (), "other")
    assert judge(GOOD, SLO, starved, golden=said(SOUND, WRONG, SOUND)).verdict == "fail"
    assert judge(GOOD, SLO, starved, golden=said(SOUND, DRIFTED, SOUND)).verdict == "invalid"


def several(*gaps: float, n: int = 20) -> dict[str, Run]:
    """The gateway, and a replica for each gap; gaps of one replica differ by a percent."""
    made = {f"direct-{i}": [stream(k, gap=gap * (1 + (k % 3) / 100)) for k in range(n)]
            for i, gap in enumerate(gaps)}  # fmt: skip
    return {"gateway": run(), **{name: Run(tuple(records)) for name, records in made.items()}}


def test_one_replica_of_eight_that_is_slower_fails_by_its_name() -> None:
    gaps = [0.002] * 7 + [0.0032]
    found = judge(several(*gaps), SLO, CALM, low_load=LowLoad())
    assert found.verdict == "fail"
    assert [reason.partition(":")[0] for reason in found.reasons] == ["direct-7"]
    assert_message(*found.reasons)
    assert judge(several(*gaps), SLO, CALM).verdict == "pass"  # at a load that is anybody's
    assert judge(several(*gaps), SLO, CALM, low_load=LowLoad(None)).verdict == "pass"
    server = ServerFigures(other_requests=412)
    assert judge(several(*gaps), SLO, CALM, low_load=LowLoad(), server=server).verdict == "invalid"


def test_replicas_that_differ_by_little_pass() -> None:
    assert judge(several(0.002, 0.00202, 0.00201), SLO, CALM, low_load=LowLoad()).verdict == "pass"


def test_too_few_requests_for_a_verdict_are_invalid_and_say_how_many_it_takes() -> None:
    few = judge(several(0.002, 0.002, n=4), SLO, CALM, low_load=LowLoad())
    assert few.verdict == "invalid"
    assert_message(*few.reasons)
    wild = several(0.002, 0.002)
    wild = {
        name: Run(tuple(stream(k, gap=0.002 * (1 + 0.2 * (k % 5))) for k in range(20)))
        for name in wild
    }
    found = judge(wild, SLO, CALM, low_load=LowLoad())
    assert found.verdict == "invalid"
    assert_message(*found.reasons)


def test_request_that_stands_still_fails_with_its_number_and_its_replica() -> None:
    paths = several(0.002, 0.002)
    sound = paths["direct-1"].records
    chunks = sound[6].chunks
    late = tuple(replace(chunk, at=chunk.at + 2 * (i > 2)) for i, chunk in enumerate(chunks))
    paths["direct-1"] = Run((*sound[:6], replace(sound[6], chunks=late), *sound[7:]))
    found = judge(paths, SLO, CALM, low_load=LowLoad())
    assert found.verdict == "fail"
    assert_message(*found.reasons)
    assert judge(paths, SLO, CALM, low_load=LowLoad(stall_ms=2500)).verdict == "pass"
    slow = {name: Run(tuple(stream(k, ttft=3.0) for k in range(40))) for name in paths}
    patient = Objective(ttft_ms=5000)
    # A first token that is always late is no stall.
    assert judge(slow, patient, CALM, low_load=LowLoad()).verdict == "pass"


def test_gateway_overhead_is_unknown_without_direct_runs() -> None:
    assert gateway_overhead({"gateway": run()}) == GatewayOverhead(None, None)


def test_no_request_sent_is_a_failure() -> None:
    assert judge({"gateway": Run(())}, SLO, CALM).verdict == "fail"


def judged(good: int, of: int, wanted: float = 0.95) -> str:
    """What so many good requests say."""
    found = GoodputShare(good, of, wanted)
    return "fail" if found.is_missed else "pass" if found.is_met else "undecided"


@in_subtests(
    ("good", "of", "word"),
    [(180, 180, "pass"), (170, 180, "pass"), (169, 180, "undecided"), (161, 180, "fail"),
     (28, 28, "undecided"), (29, 29, "pass"), (0, 0, "undecided"), (0, 5, "fail")],
)  # fmt: skip
def test_what_so_many_good_requests_say(good: int, of: int, word: str) -> None:
    assert judged(good, of) == word


@in_subtests(("good", "of"), [(58, 60), (57, 60), (10, 10), (54, 60), (110, 120)])
def test_number_that_is_said_to_decide_does_and_is_larger(good: int, of: int) -> None:
    needed = GoodputShare(good, of, 0.95).needed
    assert needed is not None
    assert needed > of
    assert judged(round(good / of * needed), needed) != "undecided"


def test_share_where_no_number_decides_and_where_every_request_is_asked_for() -> None:
    assert GoodputShare(910, 1000, 0.95).is_missed
    assert GoodputShare(9, 10, 0.91).needed is not None
    assert not GoodputShare(60, 60, 1.0).is_met
    assert GoodputShare(60, 60, 1.0).needed == pytest.approx(299, rel=0.05)


def test_failed_request_is_a_miss() -> None:
    objective = Objective(ttft_ms=100)
    sound = run().records
    slow = Run((stream(0, ttft=0.2), *sound[1:]))
    assert share_of(slow, objective) == GoodputShare(39, 40, 0.95)
    failed = Run((replace(sound[0], error="HTTP 500"), *sound[1:]))
    assert share_of(failed, objective).good == 39


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    # scipy.stats.binomtest(hits, trials).proportion_ci(method="exact")
    [(60, 120, 0.4074, 0.5926), (97, 121, 0.7196, 0.8685), (5, 10, 0.1871, 0.8129)],
)
def test_interval_is_the_exact_one(hits: int, trials: int, low: float, high: float) -> None:
    assert proportion(hits, trials) == pytest.approx((low, high), abs=2e-3)


def test_of_two_the_slower_one_is_named_with_its_factor() -> None:
    exact = {"direct-0": [10.0, 10.1, 9.9] * 8, "direct-1": [13.0, 13.1, 12.9] * 8}
    found = compare({n: {"tpot": v, "ttft": v} for n, v in exact.items()}, 0.1)
    assert {each.path for each in found.slower} == {"direct-1"}
    first = found.slower[0]
    assert (first.ratio, first.n, first.slower, found.more) == (1.3, 24, True, 0)
    assert first.margin == pytest.approx(1.1**0.5, abs=1e-3)


def test_answers_of_one_token_are_compared_by_the_first() -> None:
    chance = random.Random(5)
    paths = {
        f"direct-{i}": {"tpot": [], "ttft": [chance.gauss(40, 0.4) for _ in range(60)]}
        for i in range(2)
    }
    found = compare(paths, 0.1)
    assert {each.metric for each in found.compared} == {"ttft"}
    assert found.more == 0


def test_too_few_requests_decide_nothing() -> None:
    found = compare({f"direct-{i}": {"tpot": [1.0] * 4, "ttft": [1.0] * 4} for i in range(2)}, 0.1)
    assert (found.compared, found.finds_slowdown, found.more) == ((), None, 1)
