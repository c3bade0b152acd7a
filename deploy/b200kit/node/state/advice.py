"""What to do about a finding, in words: by its cause, from advice.yaml, or by the ladder. Pure."""

from __future__ import annotations

from b200kit.node.lib import tables
from b200kit.node.state.verdict import Action, Finding, Status

UNMEASURED = "repair the reading, or waive the check with an owner and a last day"
OF_A_TEST = "what is not measured is not accepted: see why, then b200 accept it again"
TESTS = ("acceptance.", "network.")
"""Findings of an acceptance run: no waiver is for them."""
BY_CAUSE: dict[str, str] = {
    cause: text
    for causes, text in tables.load(__package__, "advice").items()
    for cause in causes.split(", ")
}
"""Check, check and step, or unit to what is to be done."""
_STEPS = {
    Action.NONE: "correct what differs from the expected value",
    Action.MONITOR: "watch it",
    Action.RESTART_SERVICE: "systemctl restart what it names",
    Action.RESET_GPU: "reset the GPU, then reboot the node",
    Action.REBOOT: "reboot the node, then power-cycle it",
    Action.POWER_CYCLE: "power-cycle the node",
    Action.REPLACE: "replace",
}
"""Each step names the next one where the first attempt often does not suffice."""

_OUTCOMES = {
    "failed": "remove the cause and run again: what is done is not repeated",
    "not reached": "run again",
    "bare": "b200 init writes its inventory; b200 deploy installs the driver, judges the rest",
}


def of_outcome(word: str) -> str:
    """What to do about a node that left the run for a cause that is no finding; or nothing."""
    return _OUTCOMES.get(word, "")


def of(finding: Finding) -> str:
    """What to do about a finding of a verdict."""
    if finding.remedy:
        return finding.remedy
    if finding.status is Status.UNMEASURED:
        return OF_A_TEST if finding.check.startswith(TESTS) else UNMEASURED
    if text := by_cause(finding.action, finding.part, finding.check):
        # Of several GPUs a person needs the one.
        text += ": {part}" * (finding.subject.startswith("GPU") and "{part}" not in text)
        return text.format(part=finding.part or finding.subject, subject=finding.subject)
    shared = bool(finding.subjects) and finding.subject == "node"
    return ladder(finding.action, finding.subject, finding.part, shared=shared)


def by_cause(step: Action, part: str, check: str = "") -> str:
    """The text of the table; empty where it has none."""
    unit = part if step is Action.RESTART_SERVICE else ""
    keys = (unit, f"{check} {step.word}", check)
    return next((BY_CAUSE[key] for key in keys if key in BY_CAUSE), "")


def restart(unit: str) -> str:
    """What to do about a unit that does not run."""
    return by_cause(Action.RESTART_SERVICE, unit) or f"systemctl restart {unit}"


def ladder(step: Action, subject: str, part: str, *, shared: bool = False) -> str:
    """The step that a fault of hardware asks for, with the exact part.

    *shared*: the part is what several GPUs have in common.
    """
    whom = "all GPUs" if shared else "both GPUs" if subject.count("GPU") > 1 else "the GPU"
    words = _STEPS[step].replace("the GPU", whom)
    if step is Action.REPLACE:
        return f"{words} {part or subject}"
    if part and step >= Action.RESET_GPU and (shared or subject.startswith("GPU")):
        # No part is replaced before the step that may do without.
        return f"{words}; if it returns, replace {part}"
    return f"{words}: {part}" if part else words
