"""What a node's documents become as metrics, and what is absent never looks healthy."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import pytest

from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.metrics import exposition, latency_bounds
from b200kit.node.metrics.families import Events, MetricsInput, families
from b200kit.node.metrics.latency_bounds import Latency, bound
from b200kit.node.proof.clock import Now
from b200kit.node.proof.document import ProofRules, ServingNow, issued
from b200kit.node.proof.evidence import PASS, Evidence
from b200kit.node.state.verdict import Finding, Status
from b200kit.node.state.watch import Fault, Look
from b200kit.node.state.watchdog import ProbeOutcome, ReplicaState
from tests.lab.supply.programs import promtool
from tests.subtests import in_subtests
from tests.unit import smoke_results

NOW = 1764079200.0
AT, LATER, EARLIER = "2025-11-25T14:00:00Z", "2025-11-25T15:00:00Z", "2025-11-25T13:00:00Z"
LINK = Finding("17 of 18", Status.FAIL, subject="GPU 5", check="nvlink.links-up")
_WALL = timestamp.parse(EARLIER).timestamp()
_GATE = Evidence("gate", PASS, ttl_s=timestamp.parse(LATER).timestamp() - _WALL)
_RULES = ProofRules("n01", {}, ["gate"])


def proof(gate: Evidence = _GATE, **changes: Any) -> dict[str, Any]:
    """A proof by its gate."""
    made = issued(None, [gate], ServingNow((0, 1), 8), Now("b", 90.0, _WALL), _RULES)
    return {**unstructure(made), **changes}


PROOF = proof()
SMOKE = smoke_results.document(
    {
        "taken_at": EARLIER,
        "main.ttft": {"n": 300, "p99_ms": 80.0},
        "main.itl": {"n": 300, "p95_ms": 6.0},
    }
)


def looked(**changes: Any) -> dict[str, Any]:
    """What a look two seconds ago left."""
    return {
        "schema": Look.schema,
        "taken_at": EARLIER,
        "boot_s": 98.0,
        "took_s": 1.5,
        "in_service": True,
        "faults": [],
        "gpus": [{"index": 0, "temperature_c": 40, "power_usage_mw": 700_000}],
    } | changes


def standing(**changes: Any) -> dict[str, Any]:
    """What the watchdog remembers of a replica."""
    return {**unstructure(ReplicaState(**changes)), "last": {"at": EARLIER}}


def known(**notes: Any) -> MetricsInput:
    """A node with two replicas of four GPUs that is well, but for some notes."""
    well = {"watch": looked(), "watchdog": {"0": standing(), "1": standing()}, "smoke": SMOKE}
    replicas = {0: ("a", "b", "c", "d"), 1: ("e", "f", "g", "h")}
    return MetricsInput(NOW, 100.0, "1.0", well | notes, replicas, {"success": 9}, PROOF)


def lines(node: MetricsInput) -> list[str]:
    """The page's samples."""
    text = exposition.text(families(node))
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_node_that_is_well() -> None:
    said = lines(known())
    expected = {
        "b200_node_in_service 1",
        "b200_node_quarantined 0",
        "b200_faults_confirmed 0",
        "b200_serving_gpus 8",
        "b200_proven_gpus 8",
        'b200_looks_total{result="success"} 9',
        f'b200_reading_timestamp_seconds{{reading="look"}} {NOW - 2:.0f}',
        'b200_proof_standing{standing="valid"} 1',
        'b200_record_ttft_seconds{percentile="99"} 0.08',
        'b200_gpu_power_watts{gpu="0"} 700',
    }
    assert expected - {*said} == set()


@pytest.mark.parametrize(
    ("look", "gpus"),
    [
        ({"running": [0, 1]}, 8),
        ({"running": [1]}, 4),
        ({"running": []}, 0),
        ({"running": [0, 1], "in_service": False}, 0),
        ({"running": [0, 1], "in_service": False, "on_trial": True}, 8),
        ({"schema": "b200kit/watch/9", "running": []}, 8),
    ],
)
def test_what_does_not_run_or_was_taken_out_does_not_serve(look: dict[str, Any], gpus: int) -> None:
    assert f"b200_serving_gpus {gpus}" in lines(known(watch=looked(**look)))


def test_a_file_of_certificates_has_an_end_or_is_an_absent_reading() -> None:
    said = lines(known(watch=looked(certificates={"/a.crt": AT, "/b.crt": ""})))
    series = "b200_certificate_expiry_timestamp_seconds"
    assert [line for line in said if line.startswith(series)] == [
        f'{series}{{file="/a.crt"}} {NOW:.0f}'
    ]
    for name, there in (("/a.crt", 1), ("/b.crt", 0)):
        assert f'b200_reading_present{{reading="certificates {name}"}} {there}' in said


def test_events_that_a_sink_waits_for_and_nobody_can_count_are_an_absent_reading() -> None:
    series = 'b200_reading_present{reading="events"}'
    assert not any(line.startswith(series) for line in lines(known()))
    for events, there in ((Events(2, 7), 1), (None, 0)):
        assert f"{series} {there}" in lines(replace(known(), has_sink=True, events=events))


def test_the_page_is_what_prometheus_own_tool_calls_sound() -> None:
    fault = unstructure(Fault(LINK, (1,), AT, ("fault",), confirmed=True))
    program = promtool()
    done = subprocess.run(
        [program.path, "check", "metrics"],
        env=dict(program.environment), capture_output=True, text=True, check=False,
        input=exposition.text(families(known(watch=looked(faults=[fault])))),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_of_a_bare_node_nothing_looks_healthy() -> None:
    said = lines(MetricsInput(NOW, 100.0, "1.0", {}, None))
    healthy = [line for line in said if line.endswith(" 1") and "build_info" not in line]
    assert healthy == [
        'b200_reading_present{reading="metrics"} 1',
        'b200_proof_standing{standing="absent"} 1',
    ]
    assert "b200_node_in_service 0" in said
    assert not any(line.startswith(("b200_faults", "b200_replica")) for line in said)


UNREADABLE = {"unmeasured": "ValueError: no JSON"}


@in_subtests(
    "changes, line",
    [
        ({"watch": None}, "b200_node_in_service 0"),
        ({"watch": UNREADABLE}, 'b200_reading_present{reading="look"} 0'),
        ({"watch": looked(schema="b200kit/watch/9")}, "b200_node_in_service 0"),
        ({"watch": looked(in_service=False)}, "b200_node_in_service 0"),
        ({"quarantine": {"why": "work"}}, "b200_node_in_service 0"),
        ({"quarantine": UNREADABLE}, "b200_node_quarantined 1"),
        ({"watchdog_mark": UNREADABLE}, "b200_node_marked 1"),
        ({"watchdog": UNREADABLE}, 'b200_replica_out{replica="0",reason="unknown"} 1'),
        ({"watchdog": {"0": UNREADABLE}}, "b200_serving_gpus 0"),
        ({"smoke": SMOKE | {"verdict": "fail"}}, None),
        ({"smoke": SMOKE | {"schema": "b200kit/smoke/1"}}, None),
    ],
)
def test_what_is_absent_or_unreadable_is_not_healthy(
    changes: dict[str, Any], line: str | None
) -> None:
    said = lines(known(**changes))
    assert line in said if line else not any("b200_record" in one for one in said)


def test_a_fault_that_counts_is_named_with_its_gpu() -> None:
    faults = [unstructure(Fault(LINK, (1,), AT, ("fault",), confirmed=c)) for c in (True, False)]
    said = lines(known(watch=looked(faults=faults)))
    labels = 'check="nvlink.links-up",group="nvlink",gpu="5",subject="GPU 5"'
    assert f"b200_fault_confirmed{{{labels}}} 1" in said
    assert {"b200_faults_confirmed 1", "b200_faults_unconfirmed 1"} <= {*said}


@in_subtests(
    "changes, reason",
    [
        ({"out": True, "held": "GPU 5"}, "node_fault"),
        ({"out": True, "found": ProbeOutcome.WRONG.value}, "wrong_answers"),
        ({"out": True, "found": ProbeOutcome.SLOW.value}, "slow"),
        ({"out": True, "found": ProbeOutcome.STALLED.value}, "no_answer"),
        ({"out": True}, "failed"),
        ({"out": True, "given_up": True}, "given_up"),
    ],
)
def test_a_replica_is_out_for_one_reason(changes: dict[str, Any], reason: str) -> None:
    said = lines(known(watchdog={"0": standing(**changes), "1": standing()}))
    out = [line for line in said if line.startswith("b200_replica_out") and line.endswith(" 1")]
    assert out == [f'b200_replica_out{{replica="0",reason="{reason}"}} 1']
    assert "b200_serving_gpus 4" in said


def test_a_replica_that_is_out_is_not_stale_as_nobody_probes_it() -> None:
    said = lines(known(watchdog={"0": standing(out=True, held="GPU 5"), "1": standing()}))
    stamped = [line for line in said if 'timestamp_seconds{reading="replica' in line]
    assert [line.partition("}")[0][-3:] for line in stamped] == [' 1"']
    assert 'b200_reading_present{reading="replica 0"} 1' in said


@pytest.mark.parametrize(
    ("proof", "word"),
    [
        (proof(replace(_GATE, ttl_s=40_000.0, age_s=32_800.0)), "expiring"),
        (proof(replace(_GATE, ttl_s=NOW - _WALL)), "expired"),
        (PROOF | {"valid_until": "soon"}, "absent"),
        (PROOF | {"standing": "splendid"}, "absent"),
        (PROOF | {"schema": "b200kit/proof/9"}, "absent"),
        ({"unmeasured": "OSError"}, "absent"),
        (None, "absent"),
    ],
)
def test_a_proof_is_worth_what_it_is_now(proof: object, word: str) -> None:
    said = lines(replace(known(), proof=proof))
    standings = [line for line in said if "proof_standing" in line and line.endswith(" 1")]
    assert standings == [f'b200_proof_standing{{standing="{word}"}} 1']
    assert f"b200_proven_gpus {8 if word == 'expiring' else 0}" in said


def test_a_share_and_events_are_there_where_somebody_asks_for_them() -> None:
    assert not any("share" in line or "events" in line for line in lines(known()))
    said = lines(replace(known(), share=50, events=Events(2, 7)))
    expected = {"b200_share_percent 50", "b200_events_waiting 2", "b200_events_dropped_total 7"}
    assert expected - {*said} == set()


def test_a_record_is_compared_where_the_engines_buckets_can_tell() -> None:
    said = [line for line in lines(known()) if "allowed_ratio" in line]
    assert said == [
        'b200_record_allowed_ratio{metric="ttft",bucket="0.1",percentile="99"} 0.01',
        'b200_record_allowed_ratio{metric="itl",bucket="0.01",percentile="95"} 0.05',
    ]


def test_no_bucket_below_a_record_with_its_tolerance() -> None:
    assert bound(Latency("ttft", 99, 0.08), 0.1) == "0.1"
    assert bound(Latency("ttft", 99, 0.099), 0.1) == "0.25"
    assert bound(Latency("itl", 99, 0.001), 0.1) == "0.01"
    assert bound(Latency("itl", 99, 79.0), 0.1) is None
    for bounds in latency_bounds.BOUNDS.values():
        assert [*map(float, bounds)] == sorted(map(float, bounds))
