"""Every document that crosses a boundary: read back as it was written, and refused otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.acceptance.network.results import FlowLine, NetworkPlan, PlannedNode
from b200kit.cli.smoke import EndpointResult
from b200kit.inventory.keys.levels import Level
from b200kit.node.acceptance.rdma import FlowResult
from b200kit.node.acceptance.run import AcceptanceRequest
from b200kit.node.agent.evidence import Now, issue
from b200kit.node.agent.look import HealthCheckRequest
from b200kit.node.bandwidth.tests import PEER, Bandwidth, result
from b200kit.node.client.correctness import CorrectnessResult
from b200kit.node.client.golden.ask import Replies
from b200kit.node.client.golden.compare import AnswersJudgement
from b200kit.node.client.golden.reference import Reference
from b200kit.node.client.golden.replicas import Golden
from b200kit.node.client.judgement import ComparedReplica
from b200kit.node.client.prompts import Scale
from b200kit.node.client.question import AskedAnswer
from b200kit.node.client.smoke_result import AcceptedBy, BaselineComparison, Predicted
from b200kit.node.lib import documents
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.lib.documents import MOST_BYTES, NEEDED, Malformed, unstructure
from b200kit.node.lib.installed import Installed, PackageChange
from b200kit.node.maintenance.removal import KeptParts, RemovalPlan
from b200kit.node.packages.apt_trial import AptTrial
from b200kit.node.packages.transaction import PackageTransaction
from b200kit.node.serving.gateway.drain import DrainNote
from b200kit.node.state.acceptance import AcceptanceState
from b200kit.node.state.agent import AgentState, NodeNotes, RecordedLatency
from b200kit.node.state.drift import Package
from b200kit.node.state.event import Event
from b200kit.node.state.growth import Counters, Growth
from b200kit.node.state.mend import MendTries
from b200kit.node.state.proof import (
    KINDS,
    PASS,
    Consequence,
    ProofEvidence,
    ProofRules,
    RenewalRules,
    ServingNow,
)
from b200kit.node.state.quarantine import Quarantine
from b200kit.node.state.serving import ServedReplica, Serving
from b200kit.node.state.verdict import Action, Finding, GateVerdict, Status, Verdict
from b200kit.node.state.watch import HealthCheck, NodeFault
from b200kit.node.state.watchdog import LastStep, ReplicaState, WatchdogMark
from b200kit.node.status.hook import HookPlan, Told
from b200kit.node.status.shares import GivenShare
from b200kit.node.weights.manifest import Manifest, ManifestFile
from b200kit.quality.kept import ServedModel
from b200kit.records.comparison import MedianAtTp, against, timeline
from b200kit.records.conditions import RunConditions
from b200kit.records.entries import (
    Acceptance,
    Divergence,
    Forgetting,
    GoldenWord,
    MeasuredRun,
    PrecisionKey,
    QualityComparison,
)
from b200kit.records.goodput_knee import Sweep
from b200kit.records.machines import MachineIdentity
from b200kit.records.proofs import SeenProof
from b200kit.records.tuning import (
    CellLine,
    ChoiceEvidence,
    Layout,
    LayoutChoice,
    LayoutLine,
    RefusedLayout,
    TuningCell,
    TuningResult,
    knees,
)
from b200kit.reprovision.copy_comparison import CopiedTransaction, NodeCopy
from b200kit.reprovision.escalation import Attempt, Decision
from b200kit.reprovision.ledger_line import (
    AbortLine,
    ClaimLine,
    DoneLine,
    EvidenceBundle,
    FailedLine,
    IntentLine,
    LedgerState,
    OpenLine,
    ReleaseLine,
)
from b200kit.reprovision.planned_change import ChangeSummary, PlannedChange
from b200kit.reprovision.states import RepairState
from b200kit.run.document import (
    AcceptanceResult,
    ControllerUse,
    ReportedChange,
    RunHead,
    StageRecord,
    StepTaken,
    TakenOut,
    TransactionReport,
)
from b200kit.run.process import Process
from b200kit.store.database import Newest
from tests.subtests import in_subtests
from tests.unit import smoke_results
from tests.unit.node.acceptance import runs as acceptance
from tests.unit.node.client.golden_answers import answers
from tests.unit.records import runs

AT = "2026-11-25T13:00:00Z"
FINDING = Finding("17 of 18", Status.FAIL, "GPU 3", action=Action.RESET_GPU, check="nvlink.links")
PROCESS = Process("controller", "machine", "boot", 1, 0, 42, 7)
ATTEMPTS = (Attempt(Level.REBOOT, 1.5, "cured", "1"),)
DECISION = Decision(Level.REBOOT, "no driver", 1, 2, ("GPU 4",), ("reset-gpus: spent",))
HEAD: dict[str, Any] = {
    **{key: key for key in ("node", "tx", "who", "run")},
    "at": AT,
    "after": LedgerState("t", "c", ChangeSummary("t", bad=True)),
}
RULES = ProofRules(
    "n01", dict.fromkeys(KINDS, 60.0), ("health",), renew=RenewalRules("any", 1, 0.5)
)
UNREAD = {"unmeasured": "3 of 60 readings: timeout"}
SAME = AnswersJudgement("same", "as n02")
KEY = PrecisionKey("m", "a" * 40, "vllm", ("fp8 weights",))
NEAR = Divergence(128, 4000, (0.1, 0.2, 0.3), (0.1, 0.2, 0.3))
SMOKE = smoke_results.result(
    {
        "gpus": [{"index": 0, "samples": 9, "sm_clock_mhz": {"min": 1, "median": 2, "max": 3},
                  "power_usage_mw": UNREAD, "temperature_c": UNREAD, "clocks_event_reasons": 4}],
        "golden": unstructure(Golden({"direct-0": Replies(answers())}, 8).result()),
        "comparison": unstructure(
            BaselineComparison(
                "slower", "TTFT", {"ttft": Predicted(45.0, 41.0, 40.0, 42.0, inside=False)},
                AcceptedBy(AT, "ops", "burn-in", "i"),
            )
        ),
    }
)  # fmt: skip
RECORD = runs.kept([runs.run(number) for number in range(6)])
LAYOUT = Layout(2, 4, 1, False, 2048, 8, ("configured", "B"))
CELL = TuningCell(
    LAYOUT, "chat", 4.0, "done", "", SMOKE.without_series(), AT, AT,
)  # fmt: skip
PROOF = issue(
    None, [ProofEvidence("health", PASS, taken_at=AT)], ServingNow(), Now("b", 1.0, 1e9),
    replace(RULES, expired=Consequence()),
)  # fmt: skip
AGENT = AgentState(
    "n01", "1", "b", 1.5, AT, {"0": 4}, 60.0, {"success": 1}, None, {"0": ReplicaState()},
    MendTries("b"), NodeNotes(record=(RecordedLatency("ttft", 99, 0.1),)), PROOF,
)  # fmt: skip
ACCEPTANCE = acceptance.plan()
PACKAGES = PackageTransaction((Package("nvlsm", "2025.10", hold=True),), ("old",), wait_s=1.5)
DOCUMENTS = (
    Verdict((FINDING,), {"nvlink.links": "no NVLink"}),
    GateVerdict((FINDING,), {}, AT, "boot", 12.5),
    HealthCheck(
        AT,
        12.5,
        in_service=True,
        faults=(NodeFault(FINDING, (0,), AT, ("fault", "fault"), confirmed=True),),
        running=(0, 1),
        fit="unfit",
        bandwidth=Status.PASS,
        gpus=({"index": 0},),
        counters=Counters(12.5, {"GPU-3": 5}, Growth(60.0, {"GPU-3": 1})),
        remediation=({"check": "nvlink.links"},),
    ),
    ReplicaState(strikes=1, out=True, ejections=(1.5,), replica=0, last=LastStep(AT, "ejected")),
    WatchdogMark("b200-agent", AT, "it hung", "/e", Action.RESET_GPU),
    MendTries("boot", (1.5,)),
    Quarantine(AT, AT, "ops", "GPU 3").admitted("ops", (AT, AT), "boot", 3600.0),
    Event("replica.out", "out").stamped(1, AT, "n01", Moment("boot", 1.5)),
    HookPlan(("/bin/true",), 1.5),
    Told(7),
    RULES,
    PROOF,
    HealthCheckRequest(fresh=True),
    AGENT,
    Serving(
        "m", "vLLM", "http://g", (ServedReplica(0, "http://r", "vllm@0.service", ("G",)),), 1, 1, 1
    ),
    Manifest(
        (ManifestFile("model.safetensors", 3, "a" * 64),), {"repository": "o/n", "commit": "c"}
    ),
    DrainNote(("replicas/vllm0",)),
    GivenShare(5),
    Reference(answers(), 8, "n01", "this"),
    replace(Golden({"direct-0": Replies(answers())}, 8).result(), reference=SAME),
    RunConditions({"run.node": "n01", "versions.driver": {"unmeasured": "no driver"}}),
    MeasuredRun("n01", AT, "run-1", SMOKE, RunConditions({}), id="i"),
    Acceptance("n01", AT, "ops", "burn-in", ("i",)),
    GoldenWord("n01", AT, {"tokens": 8}, 2, answers()),
    Forgetting("n01", AT, "ops", "made by a bad driver"),
    QualityComparison("n01", AT, KEY, NEAR, NEAR, {}, {"url": "http://c"}, "texts", 64, "0.32.0"),
    ComparedReplica("direct-0", "tpot", 10.5, 10.1, 1.04, 1.01, 24, slower=False),
    MachineIdentity("a" * 32, "S1"),
    CorrectnessResult(("no answer",), Scale(1.3, 13.0), False, None),
    SMOKE,
    Bandwidth(
        "boot",
        "580.1",
        ("GPU-3",),
        (result(PEER, "nvbandwidth", "0.8", 512, [0, 1], 740.1),),
        {"all_reduce_perf": "not installed"},
        {"device_local_copy": "it hung"},
        AT,
    ),
    EndpointResult("http://g", "laptop", "wrong", ("other",), SMOKE, {"backend": "x"}),
    replace(
        against(RECORD),
        timeline=timeline(RECORD),
        conditions=RECORD.runs[-1].conditions,
        by_tp=(MedianAtTp(2, 10.1, 6),),
    ),
    LayoutLine(LAYOUT, 3.5, AT, "out of memory"),
    CellLine("k", CELL),
    TuningResult(
        "n01",
        "latency",
        0.95,
        (CELL,),
        knees([CELL], Sweep()),
        LayoutChoice(LAYOUT, "the least", ("TP1 x 8",), (ChoiceEvidence(LAYOUT, "500 ms"),)),
        (RefusedLayout("C", "too wide"),),
    ),
    ServedModel(KEY, "0.32.0", "auto", 4096),
    PROCESS,
    NodeCopy(
        CopiedTransaction("t", RepairState.DRAINED, "ops", AT, (Attempt(Level.REBOOT, 1.5),), "a"),
        AT,
        "boot",
        PROCESS,
        1800.0,
    ),
    ClaimLine(**HEAD, previous_owner="ops@one pid 1"),
    OpenLine(**HEAD, findings=(FINDING,), cause="c", why="w", change=PlannedChange("t", "d")),
    ReleaseLine(**HEAD),
    IntentLine(**HEAD, step="action", id="1", why="w", decision=DECISION, host_keys=("k",)),
    DoneLine(**HEAD, id="1", result="r", copied="a", evidence=EvidenceBundle("/e", "b")),
    FailedLine(**HEAD, id="1", result="r", findings=(FINDING,), cause="c", back=False),
    AbortLine(**HEAD, why="w"),
    RunHead("r", "b200.py", ("pyinfra",), AT, AT, ControllerUse(1.5, 0.5, 3), simulated=True),
    StageRecord("driver", "changed", ["install it"], "", 1.5),
    TransactionReport(
        RepairState.MANUAL,
        Level.REPLACE,
        "no level is left",
        (StepTaken(AT, AT, "drain", RepairState.QUARANTINED, RepairState.DRAINED, "done"),),
        ("GPU 4",),
        "/e",
        TakenOut("ops", AT, "w"),
        ReportedChange("t", "1 of 2", "out of service"),
    ),
    ACCEPTANCE,
    AcceptanceState("a", "running", "smoke", 1, 9, "memory", 1, 60.0, ("1 of 9",)),
    AcceptanceRequest("n01", "smoke", {"peer": acceptance.floor(700.0)}),
    AcceptanceResult("a", "smoke", AT, AT, "fit", "n01/a", "a" * 64, "SHA256:k", "S1", {"done": 9}),
    acceptance.line(ACCEPTANCE.steps[0]),
    FlowResult("done", "", {"gbit": 390.0}, {"xmit": 1}, {"xmit": 2}),
    FlowLine("n01", "n02", 0, 1, "done", "", 390.0, 2.7, 1.0, AT),
    NetworkPlan("network-1", AT, 5.0, {"n01": PlannedNode("n01", ({"rail": 0},))}),
    PACKAGES,
    AptTrial(PACKAGES, {"/etc/apt/sources.list": "ZGVi"}, simulate=True, limit_s=60.0),
    Installed({"/etc/x": ("daemon-reload",)}, packages=(PackageChange(("p",), ("q",)),)),
    KeptParts(files=("/etc/x",)),
    RemovalPlan(units=("haproxy.service",), at_boot=True),
    AskedAnswer("m", "yes", 1, 40.5, 0.1),
    Newest(7, "a"),
    SeenProof("SHA256:k", 7, "a" * 64),
)


def needed(kind: type[Any]) -> set[str]:
    """Keys that a document of a class must have."""
    schema = {"schema"} if hasattr(kind, "schema") else set()
    return {
        *schema,
        *getattr(kind, "derived", ()),
        *(
            one.name
            for one in fields(kind)
            if one.init
            and (one.metadata == NEEDED or one.default is one.default_factory is MISSING)
        ),
    }


def hostile(document: Any) -> Iterator[tuple[str, bytes]]:
    """Files that are none of the class, each with what is wrong."""
    sound = documents.unstructure(document)
    text = json.dumps(sound)
    first = next(iter(sound))
    most = getattr(document, "most_bytes", MOST_BYTES)
    yield "empty", b""
    yield "no object", b"[]"
    yield "cut short", text[:-1].encode()
    yield "no UTF-8", text.encode().replace(b'"', b'"\xff', 1)
    yield "key twice", f'{text[:-1]}, "{first}": {json.dumps(sound[first])}}}'.encode()
    yield "NaN", f'{text[:-1]}, "{first}": NaN}}'.encode()
    yield "Infinity", f'{text[:-1]}, "{first}": Infinity}}'.encode()
    yield "too deep", f'{text[:-1]}, "more": {"[" * 100_000}'.encode()
    yield "too large", text.encode() + b" " * most
    changes = {
        "unknown key": {**sound, "more": 1},
        **{
            f"{key}: wrong type": {
                **sound,
                key: [1] if type(sound[key]) is dict else {"wrong": [1]},
            }
            for key in sound
        },
        **{
            f"without {key}": {k: v for k, v in sound.items() if k != key}
            for key in needed(type(document))
        },
    }
    if "schema" in sound:
        changes["other schema"] = {**sound, "schema": "b200kit/other/1"}
    yield from ((what, json.dumps(changed).encode()) for what, changed in changes.items())


@in_subtests("document", DOCUMENTS, ids=lambda one: type(one).__name__)
def test_document_is_read_back_as_it_was_written(document: Any, tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_bytes(documents.to_bytes(document))
    assert documents.load(type(document), path) == document


@in_subtests("document", DOCUMENTS, ids=lambda one: type(one).__name__)
def test_document_that_is_another_is_refused_in_one_line_that_names_it(
    document: Any, tmp_path: Path
) -> None:
    path = tmp_path / "document.json"
    for what, content in hostile(document):
        path.write_bytes(content)
        with pytest.raises(Malformed) as caught:
            documents.load(type(document), path)
        assert str(path) in str(caught.value), what
        assert "\n" not in str(caught.value), what
