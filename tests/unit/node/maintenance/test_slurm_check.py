"""Slurm's health check, prolog and epilog: what a judgement makes of recorded states of a node."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from b200kit.node.checks.judge import judge
from b200kit.node.facts.nvml.client import GRACE_S as NVML_GRACE_S
from b200kit.node.facts.observe import NVML_TIMEOUT_S
from b200kit.node.lib import program
from b200kit.node.lib.documents import unstructure
from b200kit.node.lib.hard_timeout import GRACE_S
from b200kit.node.maintenance import slurm_check
from b200kit.node.state.verdict import Finding, Status, Verdict
from tests.messages import assert_message
from tests.unit import states
from tests.unit.programs import Programs

_RECORDED = Path(__file__).parents[3] / "data" / "slurm-22.05.yaml"
ANSWERS: dict[str, str] = yaml.safe_load(_RECORDED.read_text("utf-8"))
OURS = "Reason=b200kit: GPU 2 has no NVLink"
ANSWERS["checked"] = ANSWERS["drained"].replace(OURS, "Reason=b200kit: slurm-check: GPU 7")
ANSWERS["checked-busy"] = ANSWERS["draining"].replace(OURS, "Reason=b200kit: slurm-check: GPU 7")
ANSWERS |= {
    f"checked-{word}": ANSWERS["checked"].replace("State=IDLE+DRAIN", f"State={state}")
    for word, state in {
        "down": "DOWN+DRAIN",
        "fail": "IDLE+DRAIN+FAIL",
        "reboot": "IDLE+DRAIN+REBOOT_REQUESTED",
        "reserved": "IDLE+DRAIN+RESERVED",
    }.items()
}


def verdict(fit: bool) -> str:
    """What the gate prints."""
    state = states.healthy()
    if not fit:
        state["gpus"][7]["mig"] = True
    return json.dumps(unstructure(judge(states.expectation(), state)))


class Node:
    """A node with a verdict and scontrol's answer for it."""

    def __init__(self, programs: Programs, patch: pytest.MonkeyPatch) -> None:
        self.programs, self.patch = programs, patch

    def judged(self, script: str) -> None:
        """Let the gate do this."""
        self.patch.setattr(program, "argv", lambda *words: [sys.executable, "-c", script])

    def is_(self, name: str, fit: bool) -> None:
        """Let the node be known to Slurm like this."""
        self.judged(f"print({verdict(fit)!r})")
        where = ANSWERS[name].partition(" ")[0].removeprefix("NodeName=")
        self.patch.setenv("SLURMD_NODENAME", where)
        self.programs.answer("scontrol", ("show", ANSWERS[name], 0), ("update", "", 0))

    def check(self) -> tuple[int, list[str]]:
        """Exit status, and what was changed in Slurm."""
        status = slurm_check.main(["--expect", "/expect.json"])
        changes = [line for line in self.programs.ran() if "|update|" in line]
        return status, [line.split("|", 3)[3] for line in changes]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name in ("SLURM_JOB_ID", "B200_WHY"):
        monkeypatch.delenv(name, raising=False)
    return Node(Programs(folder), monkeypatch)


DRAIN = "State=DRAIN|Reason=b200kit: slurm-check: GPU 7 is split by MIG"
RESUME = "State=RESUME"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("state", "unfit", "fit"),
    [
        ("idle", [DRAIN], []),
        ("allocated", [DRAIN], []),
        ("resumed", [DRAIN], []),
        ("lost", [DRAIN], []),
        ("rebooted", [DRAIN], []),
        ("checked", [], [RESUME]),
        ("checked-busy", [], [RESUME]),
        ("checked-reserved", [], [RESUME]),
        # Out for more than what the check said.
        ("checked-down", [], []),
        ("checked-fail", [], []),
        ("checked-reboot", [], []),
        # A repair's, to be ended by it.
        ("drained", [], []),
        ("draining", [], []),
        ("lost-after-us", [], []),
        ("rebooted-after-us", [], []),
        ("administrator-drain", [], []),
        ("administrator-down", [], []),
        ("administrator-fail", [], []),
        ("lines-and-comment", [], []),
    ],
)
def test_node_is_drained_and_resumed_only_where_nobody_else_has_a_word(
    node: Node, state: str, unfit: list[str], fit: list[str]
) -> None:
    node.is_(state, fit=False)
    assert node.check() == (1, unfit)
    node.is_(state, fit=True)
    assert node.check() == (0, fit)


@pytest.mark.parametrize("state", ["idle", "checked"])
def test_fit_node_does_not_ask_slurm_around_a_job(node: Node, state: str) -> None:
    node.is_(state, fit=True)
    node.patch.setenv("SLURM_JOB_ID", "4711")
    assert node.check() == (0, [])
    assert node.programs.ran() == []


def test_unfit_node_is_drained_before_its_prolog_fails(node: Node) -> None:
    node.is_("idle", fit=False)
    node.patch.setenv("SLURM_JOB_ID", "4711")
    assert node.check() == (1, [DRAIN])


@pytest.mark.parametrize(
    "script",
    [
        "",
        "print('no JSON')",
        "print('[]')",
        "print('{}')",
        """print('{"findings": [1]}')""",
        """print('{"fit": "fit", "findings": []}')""",
        "raise SystemExit('gate: a fault')",
        """print('{"fit": "fit", "findings": [{"status": "splendid", "summary": "new"}]}')""",
    ],
)
def test_node_that_was_not_measured_is_not_fit(node: Node, script: str) -> None:
    node.is_("idle", fit=True)
    node.judged(script)
    status, changes = node.check()
    assert (status, len(changes)) == (1, 1)


def test_judgement_that_hangs_ends_in_the_limit_and_drains(
    node: Node, capfd: pytest.CaptureFixture[str]
) -> None:
    node.is_("idle", fit=True)
    node.judged("import signal; signal.pause()")
    node.patch.setattr(slurm_check, "JUDGED_WITHIN_S", 0.2)
    assert node.check()[0] == 1
    assert_message(capfd.readouterr().err)


def test_limits_end_before_slurms_own() -> None:
    """HealthCheckProgram is killed after 60 s; NVML's own limit must be the one that is felt."""
    every = slurm_check.JUDGED_WITHIN_S + 2 * slurm_check.SLURM_WITHIN_S + 3 * GRACE_S
    assert every < 60 - 5
    assert slurm_check.JUDGED_WITHIN_S > NVML_TIMEOUT_S + NVML_GRACE_S


@pytest.mark.parametrize("fault", ["controller-down", "unknown", "several", None])
def test_slurm_that_does_not_answer_changes_no_judgement(
    node: Node, fault: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    for fit in (True, False):
        node.is_("idle", fit)
        if fault is None:
            (node.programs.folder / "scontrol").unlink()
            node.patch.setattr(slurm_check, "PATH", "/nowhere")
        else:
            code = int(fault != "several")
            node.programs.answer("scontrol", ("show", ANSWERS[fault], code))
        assert node.check() == (int(not fit), [])
    assert_message(capfd.readouterr().err)


def test_reason_is_one_short_line_whatever_a_node_said(node: Node) -> None:
    node.is_("idle", fit=False)
    summary = "GPU 2\nReason=fan 3\r\x1b[31m is loud\0 " + "x" * 10_000
    judged = json.dumps(unstructure(Verdict((Finding(summary, Status.FAIL),))))
    node.judged(f"print({judged!r})")
    [change] = node.check()[1]
    assert change.startswith("State=DRAIN|Reason=b200kit: slurm-check: GPU 2 Reason=fan 3 ")
    assert change.isprintable()
    assert len(change.split("Reason=", 1)[1]) == slurm_check.MOST_CHARACTERS
