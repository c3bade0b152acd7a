"""What to do about a finding, in words: the one table of advice. Pure."""

from __future__ import annotations

from b200kit.node.state.verdict import Action, Finding, Status

UNMEASURED = "nothing is assumed: correct the reading, or waive it by name until a date"
_STEPS = {
    Action.NONE: "no reset helps: correct what differs from the expected value",
    Action.MONITOR: "watch it",
    Action.RESTART_SERVICE: "restart the service",
    Action.RESET_GPU: "reset the GPU, then reboot the node",
    Action.REBOOT: "reboot the node, then power-cycle it",
    Action.POWER_CYCLE: "power-cycle the node",
    Action.REPLACE: "replace",
}
"""Each step names the next one where the first attempt often does not suffice."""

_OUTCOMES = {
    "failed": "remove the cause and run again: what is done is not repeated",
    "unreachable": "look at its power, network and sshd; if it stays away: reprovision.py",
    "not reached": "run again",
    "unmeasured": UNMEASURED,
}


def of_outcome(word: str) -> str:
    """What to do about a node that left the run for a cause that is no finding; or nothing."""
    return _OUTCOMES.get(word, "")


def of(finding: Finding) -> str:
    """What to do about a finding of a verdict."""
    if finding.remedy:
        return finding.remedy
    if finding.status is Status.UNMEASURED:
        return UNMEASURED
    shared = bool(finding.subjects) and finding.subject == "node"
    return advice(finding.action, finding.subject, finding.part, shared=shared)


def advice(step: Action, subject: str, part: str, *, shared: bool = False) -> str:
    """The step that a failed finding asks for, with the exact part.

    *shared*: the part is what several GPUs have in common.
    """
    whom = "all GPUs" if shared else "both GPUs" if subject.count("GPU") > 1 else "the GPU"
    words = _STEPS[step].replace("the GPU", whom)
    if step is Action.REPLACE:
        return f"{words} {part or subject}"
    if part and (shared or (step >= Action.RESET_GPU and subject.startswith("GPU"))):
        # No part is replaced because a service alone did not help.
        then = ", then reboot the node" if step is Action.RESTART_SERVICE else ""
        return f"{words}{then}; if it returns, replace {part}"
    return f"{words}: {part}" if part else words
