"""What a node's documents become as metrics, and what is absent never looks healthy."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from b200kit.node.agent import memory
from b200kit.node.agent.evidence import Now, issue
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import timestamp
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.lib.documents import structure
from b200kit.node.state.agent import AgentState, NodeNotes, RecordedLatency
from b200kit.node.state.proof import (
    KINDS,
    PASS,
    Consequence,
    NodeProof,
    ProofEvidence,
    ProofRules,
    ServingNow,
)
from b200kit.node.state.verdict import Finding, Status
from b200kit.node.state.watch import HealthCheck, NodeFault
from b200kit.node.state.watchdog import LastStep, ProbeOutcome, ReplicaState
from b200kit.node.status import metrics
from b200kit.node.status.metrics import MetricFamily, MetricsInput, bound, families, text
from tests.lab.supply.programs import promtool
from tests.subtests import in_subtests
from tests.unit import smoke_results

NOW = 1764079200.0
AT, LATER, EARLIER = "2025-11-25T14:00:00Z", "2025-11-25T15:00:00Z", "2025-11-25T13:00:00Z"
LINK = Finding("17 of 18", Status.FAIL, subject="GPU 5", check="nvlink.links-up")
_WALL = timestamp.parse(EARLIER).timestamp()
SMOKE = smoke_results.document(
    {
        "taken_at": EARLIER,
        "main.ttft": {"n": 300, "p99_ms": 80.0},
        "main.itl": {"n": 300, "p95_ms": 6.0},
    }
)


def proof(holds_s: float = 7200.0, late_s: float = 0.0) -> NodeProof:
    """A proof of ten seconds ago by its gate, which was then so old."""
    ttl = dict.fromkeys(KINDS, holds_s)
    gate = ProofEvidence("gate", PASS, taken_at=stamp(NOW - 10.0 - late_s))
    rules = ProofRules("n01", ttl, ["gate"], expired=Consequence())
    return issue(None, [gate], ServingNow((0, 1), 8), Now("b", 90.0, NOW - 10.0), rules)


def stamp(at: float) -> str:
    """A moment as documents have it."""
    return timestamp.text(datetime.fromtimestamp(at, UTC))


def looked(**changes: Any) -> HealthCheck:
    """A look two seconds ago."""
    gpus = ({"index": 0, "temperature_c": 40, "power_usage_mw": 700_000},)
    return replace(HealthCheck(EARLIER, 98.0, True, (), took_s=1.5, gpus=gpus), **changes)


def standing(**changes: Any) -> ReplicaState:
    """What is remembered of a replica."""
    return ReplicaState(**{"last": LastStep(EARLIER), **changes})


def known(**changes: Any) -> MetricsInput:
    """A node with two replicas of four GPUs that is well, but for some of what it knows."""
    record = memory.recorded(structure(SmokeResult, SMOKE))
    well = AgentState(
        "n01", "1.0", "b", 99.0, EARLIER, {"0": 4, "1": 4}, 60.0, {"success": 9}, looked(),
        {"0": standing(), "1": standing()}, None,
        NodeNotes(verdict_at=EARLIER, record_at=EARLIER, record=record), proof(),
    )  # fmt: skip
    return MetricsInput(NOW, Moment("b", 100.0), replace(well, **changes))


def lines(node: MetricsInput) -> list[str]:
    """The page's samples."""
    text = metrics.text(families(node))
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_node_that_is_well() -> None:
    said = lines(known())
    expected = {
        "b200_node_in_service 1",
        "b200_node_quarantined 0",
        "b200_faults_confirmed 0",
        "b200_serving_gpus 8",
        "b200_proven_gpus 8",
        'b200_health_checks_total{result="success"} 9',
        f'b200_reading_timestamp_seconds{{reading="health"}} {NOW - 2:.0f}',
        'b200_proof_standing{standing="valid"} 1',
        'b200_record_ttft_seconds{percentile="99"} 0.08',
        'b200_gpu_power_watts{gpu="0"} 700',
    }
    assert expected - {*said} == set()


@pytest.mark.parametrize(
    ("look", "gpus"),
    [
        ({"running": (0, 1)}, 8),
        ({"running": (1,)}, 4),
        ({"running": ()}, 0),
        ({"running": (0, 1), "in_service": False}, 0),
        ({"running": (0, 1), "in_service": False, "on_trial": True}, 8),
        ({"running": (), "boot_s": 39.0}, 8),
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


def test_the_page_is_what_prometheus_own_tool_calls_sound() -> None:
    fault = NodeFault(LINK, (1,), AT, ("fault",), confirmed=True)
    program = promtool()
    done = subprocess.run(
        [program.path, "check", "metrics"],
        env=dict(program.environment), capture_output=True, text=True, check=False,
        input=metrics.text(families(known(watch=looked(faults=(fault,))))),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("boot_id", [None, "another"])
def test_where_nothing_is_known_of_this_boot_nothing_looks_healthy(boot_id: str | None) -> None:
    before = known(boot_id=boot_id, proof=None, notes=NodeNotes(quarantined=True)).state
    said = lines(MetricsInput(NOW, Moment("b", 100.0), before if boot_id else None))
    healthy = [line for line in said if line.endswith(" 1") and "build_info" not in line]
    worse = [line for line in healthy if "replica_out" not in line and "quarantined" not in line]
    assert [line for line in worse if "marked" not in line] == [
        'b200_proof_standing{standing="absent"} 1'
    ]
    assert "b200_node_in_service 0" in said
    assert not any(line.startswith("b200_faults") for line in said)


@in_subtests(
    "changes, line",
    [
        ({"watch": None}, "b200_node_in_service 0"),
        ({"watch": None}, 'b200_reading_present{reading="health"} 0'),
        ({"watch": looked(boot_s=39.0)}, "b200_node_in_service 0"),
        ({"watch": looked(in_service=False)}, "b200_node_in_service 0"),
        ({"notes": NodeNotes(quarantined=True)}, "b200_node_in_service 0"),
        ({"notes": NodeNotes(quarantined=True)}, "b200_node_quarantined 1"),
        ({"notes": NodeNotes(marked=True)}, "b200_node_marked 1"),
        ({"watchdog": {}}, 'b200_replica_out{replica="0",reason="unknown"} 1'),
        ({"watchdog": {}}, "b200_serving_gpus 0"),
        ({"notes": NodeNotes()}, None),
    ],
)
def test_what_is_absent_or_old_is_not_healthy(changes: dict[str, Any], line: str | None) -> None:
    said = lines(known(**changes))
    assert line in said if line else not any("b200_record" in one for one in said)


def test_a_test_that_did_not_pass_is_no_record() -> None:
    assert memory.recorded(structure(SmokeResult, SMOKE | {"verdict": "fail"})) == ()


def test_a_fault_that_counts_is_named_with_its_gpu() -> None:
    faults = tuple(NodeFault(LINK, (1,), AT, ("fault",), confirmed=c) for c in (True, False))
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
    ("given", "word"),
    [
        (proof(), "valid"),
        (proof(7200.0, 6000.0), "expiring"),
        (proof(20.0, 5.0), "valid"),
        (proof(20.0, 10.0), "expired"),
        (replace(proof(), boot_id="another"), "expired"),
        (None, "absent"),
    ],
)
def test_a_proof_is_worth_what_it_is_now(given: NodeProof | None, word: str) -> None:
    said = lines(known(proof=given))
    standings = [line for line in said if "proof_standing" in line and line.endswith(" 1")]
    assert standings == [f'b200_proof_standing{{standing="{word}"}} 1']
    assert f"b200_proven_gpus {8 if word in ('valid', 'expiring') else 0}" in said


def test_a_share_is_there_where_a_proof_says_it() -> None:
    assert "b200_share_percent 100" in lines(known())
    assert "b200_share_percent 20" in lines(replace(known(), given=20))
    assert "b200_share_percent 50" in lines(known(proof=proof(20.0, 10.0)))
    assert not any("share" in line for line in lines(known(proof=None)))


def test_a_record_is_compared_where_the_engines_buckets_can_tell() -> None:
    said = [line for line in lines(known()) if "allowed_ratio" in line]
    assert said == [
        'b200_record_allowed_ratio{metric="ttft",bucket="0.1",percentile="99"} 0.01',
        'b200_record_allowed_ratio{metric="itl",bucket="0.01",percentile="95"} 0.05',
    ]


def test_no_bucket_below_a_record_with_its_tolerance() -> None:
    assert bound(RecordedLatency("ttft", 99, 0.08), 0.1) == "0.1"
    assert bound(RecordedLatency("ttft", 99, 0.099), 0.1) == "0.25"
    assert bound(RecordedLatency("itl", 99, 0.001), 0.1) == "0.01"
    assert bound(RecordedLatency("itl", 99, 79.0), 0.1) is None
    for bounds in metrics.BOUNDS.values():
        assert [*map(float, bounds)] == sorted(map(float, bounds))


def test_a_family_is_its_help_its_type_and_a_line_a_series() -> None:
    family = MetricFamily("b200_x", "What\nit \\ is.", (({"a": 'q"\\\n'}, 1.0), ({}, 0.25)))
    assert text([family]).splitlines() == [
        "# HELP b200_x What\\nit \\\\ is.",
        "# TYPE b200_x gauge",
        'b200_x{a="q\\"\\\\\\n"} 1',
        "b200_x 0.25",
    ]


def test_a_timestamp_keeps_its_seconds() -> None:
    assert "b200_x 1764079200\n" in text([MetricFamily("b200_x", "x", (({}, 1764079200.0),))])


def test_without_a_series_nothing_is_said() -> None:
    assert "b200_x" not in text([MetricFamily("b200_x", "x", ())])


@pytest.mark.parametrize(
    "family", [MetricFamily("1x", "x", ()), MetricFamily("x", "x", (({"a-b": 1}, 1.0),))]
)
def test_names_that_prometheus_refuses_are_refused(family: MetricFamily) -> None:
    with pytest.raises(ValueError, match="is no name of"):
        family.lines()
