"""The judgement: every registered check over one observation, fail closed.

A check is a small function ``(Expectation, StateView) -> Iterable[Finding]``. One that raises, as
every reading does that is not there (`Unread`), or yields nothing is an unmeasured finding, and a
document that is not a NodeState of a schema we know is judged unmeasured as a whole. `judge` never
raises, whatever JSON it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module

from b200kit.node.checks.findings import unread
from b200kit.node.checks.node_scale import OnNode, board_of, explained, fold, gpus_of
from b200kit.node.lib import timestamp
from b200kit.node.state import advice
from b200kit.node.state import view as states
from b200kit.node.state.expectation import SCHEMA, Expectation, Unexpected
from b200kit.node.state.not_offered import branch, not_offered
from b200kit.node.state.plausible import plausible
from b200kit.node.state.verdict import Action, Finding, Status, Verdict
from b200kit.node.state.view import StateView, Unread

Check = Callable[[Expectation, StateView], Iterable[Finding]]

DECIDES = "identity.machine"
"""The check of whether this hardware data is for this machine at all. Where it fails the others
would judge by wrong data, so it is the whole verdict."""
REGISTRY: dict[str, Check] = {}
"""Check id to function, filled by `check` when the modules of b200kit.node.checks are imported."""
ON_NODE: dict[str, tuple[OnNode, ...]] = {}
"""Check id to what its faults mean where all GPUs show them."""


def check(identifier: str, *on_node: OnNode) -> Callable[[Check], Check]:
    """Register a check under an id such as "nvlink.links"; an id names one check only."""

    def register(function: Check) -> Check:
        if identifier in REGISTRY:
            raise ValueError(f"check {identifier} is registered twice")
        REGISTRY[identifier], ON_NODE[identifier] = function, on_node
        return function

    return register


def registered() -> dict[str, Check]:
    """Every check of the package by id."""
    import_module("b200kit.node.checks")
    return dict(REGISTRY)


def judge(expectation: object, state: object, checks: Mapping[str, Check] | None = None) -> Verdict:
    """Judge an observation by an expectation; `checks` stands in for the registry in proofs."""
    return judge_vetted(expectation, plausible(state), checks)


def judge_vetted(
    expectation: object, state: object, checks: Mapping[str, Check] | None = None
) -> Verdict:
    """The same for an observation as `plausible` returned it, which is a tenth of the work."""
    expect, view = Expectation(expectation), StateView(state)
    refused = malformed(expect, view)
    if refused:
        return Verdict(refused)
    expect = of_its_gpu(expect, view)
    chosen = registered() if checks is None else checks
    left_out = not_applicable(expect, chosen)
    findings: list[Finding] = []
    everyone, board = gpus_of(view), board_of(expect)
    for name, run in chosen.items():
        if name in left_out:
            continue
        judged = [
            note_if_not_offered(expect, view, finding)
            for finding in run_one(name, run, expect, view)
        ]
        found = [waive(expect, finding) for finding in judged]
        findings += fold(found, ON_NODE.get(name, ()), everyone, board)
        if name == DECIDES and any(finding.status is Status.FAIL for finding in found):
            break
    within = (inside(expect, finding) for finding in explained(findings, ON_NODE))
    return Verdict(tuple(waive(expect, finding) for finding in within), left_out)


def not_applicable(expect: Expectation, checks: Iterable[str]) -> dict[str, str]:
    """The checks that ask for what this hardware does not have, each with why.

    A table that is malformed anywhere leaves nothing out: better a check too many than one too few.
    """
    table = expect.known(dict, "hardware", "not_applicable") or {}
    if not all(isinstance(why, str) and why.strip() for why in table.values()):
        return {}
    return {name: table[name] for name in checks if name in table}


def malformed(expect: Expectation, view: StateView) -> tuple[Finding, ...]:
    """Findings against the documents themselves; empty when both can be judged."""
    desired = (("document.state", view, states.SCHEMA), ("document.expectation", expect, SCHEMA))
    return tuple(
        Finding(
            check=name,
            status=Status.UNMEASURED,
            summary=f"{name.split('.')[1]} document cannot be judged: {observed}",
            read=observed,
            expected=schema,
            source="b200kit/node/checks/judge.py",
        )
        for name, document, schema in desired
        if (observed := schema_of(document)) != schema
    )


def schema_of(document: StateView | Expectation) -> str:
    """The schema a document claims, or why it claims none."""
    try:
        return document.text("schema")
    except Unread as error:
        return f"no schema: {error.reason}"


def run_one(name: str, run: Check, expect: Expectation, view: StateView) -> list[Finding]:
    """Findings of one check, at least one whatever happens in it."""
    findings = []
    try:
        for finding in run(expect, view):
            findings.append(finding.with_check(name))
    except Unexpected as error:
        findings.append(not_measured(name, str(error)))
    except Unread as error:
        findings.append(unread(error).with_check(name))
    except Exception as error:
        # A fault in a check must read as "not measured", never end the judgement of the others.
        findings.append(not_measured(name, f"the check failed: {type(error).__name__}: {error}"))
    return findings or [not_measured(name, "the check found nothing to judge")]


def not_measured(name: str, reason: str) -> Finding:
    """An unmeasured finding of a check as a whole."""
    summary = f"{name} was not measured: {reason}"
    return Finding(check=name, status=Status.UNMEASURED, summary=summary, read=reason)


def waive(expect: Expectation, finding: Finding) -> Finding:
    """The finding, waived where a waiver in force names it."""
    if not finding.blocks:
        return finding
    for entry in expect.known_items("waivers"):
        keys = ("owner", "reason", "until", "check")
        texts = {key: (entry.known(str, key) or "").strip() for key in keys}
        if not all(texts.values()) or texts["check"] != finding.check:
            continue
        subject = entry.reading("subject")
        everywhere = subject is None or entry.is_missing("subject")
        if (everywhere or subject == finding.subject) and in_force(expect, texts["until"]):
            return replace(finding, status=Status.WAIVED, waiver=texts)
    return finding


def in_force(expect: Expectation, until: str) -> bool:
    """Whether a waiver still holds today; its last day counts. Unreadable dates never hold."""
    try:
        return timestamp.day(expect.known(str, "today")) <= timestamp.day(until)
    except ValueError:
        return False


def of_its_gpu(expect: Expectation, state: StateView) -> Expectation:
    """The expectation with `hardware.gpus` of the node's GPU laid over what holds for all.

    The entry's figures replace those of the same name, and its checks that are not applicable are
    added. Where the bus was not read, or shows several kinds of GPU or one without an entry, what
    holds for all is expected.
    """
    gpus = state.known_items("pci", "gpus")
    ids = {f"{gpu.known(str, 'vendor')}:{gpu.known(str, 'device')}" for gpu in gpus}
    hardware = expect.known(dict, "hardware") or {}
    entry = expect.at("hardware", "gpus", *ids) if len(ids) == 1 else None
    if entry is None or entry.known(dict, "expect") is None:
        return expect
    laid = {
        part: {**(expect.known(dict, "hardware", part) or {}), **(entry.known(dict, part) or {})}
        for part in ("expect", "not_applicable")
    }
    document = expect.known(dict) or {}
    return Expectation({**document, "hardware": {**hardware, **laid}})


def note_if_not_offered(expect: Expectation, state: StateView, finding: Finding) -> Finding:
    """The finding, or a note where `driver.may_lack` has its check and the driver is too old.

    The words must be those of this driver and of the data. With any other reason, and with a driver
    that offers the reading, it stays unmeasured.
    """
    if finding.status is not Status.UNMEASURED:
        return finding
    entry = expect.at("hardware", "expect", "driver.may_lack")
    first = entry.known(int, "value", finding.check)
    driver = state.known(str, "nvml", "driver_version") or ""
    running = branch(driver)
    if first is None or running is None or running >= first:
        return finding
    if finding.read != not_offered(driver, first):
        return finding
    return replace(
        finding,
        status=Status.PASS,
        action=Action.MONITOR,
        summary=finding.summary.replace("could not be read", "is not judged"),
        source=entry.known(str, "source") or "",
    )


def inside(expect: Expectation, finding: Finding) -> Finding:
    """The finding as somebody in the guest can act on it; of bare metal it stays as it is.

    From the hardware data, `guest.remedies`: by the action's word what is left of it inside
    (`action`), in words (`remedy`; {advice} is what would be done on bare metal), and for which
    checks, by the beginnings of their ids, where not for all (`checks`).
    """
    if finding.status not in (Status.FAIL, Status.WAIVED):
        return finding
    entry = expect.at("hardware", "expect", "guest.remedies", "value", finding.action.word)
    words = entry.known(str, "remedy")
    if words is None:
        return finding
    checks = entry.known(list, "checks") or [""]
    if not finding.check.startswith(tuple(map(str, checks))):
        return finding
    remedy = words.replace("{advice}", advice.of(finding))
    return replace(finding, action=Action.parse(entry.reading("action")), remedy=remedy)
