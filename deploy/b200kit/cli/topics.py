"""What `b200 explain` knows, by kind: the data that the reference pages are made of, by name.

Each kind says its names with a line each, and the facts about one of them, which cost more. No text
about a thing stands here: it is that thing's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from b200kit.acceptance import network
from b200kit.catalog import hardware, shipped
from b200kit.catalog.recognised import on_bus
from b200kit.cli import command as commands
from b200kit.cli import reference_pages
from b200kit.cli.reference_pages import first_line, plain
from b200kit.inventory import spec
from b200kit.inventory.keys import problem
from b200kit.monitoring import files as monitoring
from b200kit.node.acceptance import table as acceptance
from b200kit.node.checks.judge import judge_vetted, registered
from b200kit.node.fabric.states import STATES
from b200kit.node.state import advice, engine_probe, event, watchdog
from b200kit.node.state.plausible import plausible
from b200kit.node.state.verdict import Action, Finding, Status, Verdict
from b200kit.readiness import checks as readiness
from b200kit.records import examples
from b200kit.records.expected import by_hardware
from b200kit.report import outcome
from b200kit.run import connection_fault, places

Fact = tuple[str, str]
_MOST_FAULTS = 4
_HEALTHY = "healthy-hgx-b200"
_FAILED = ("fail", "unfit")


@dataclass(frozen=True)
class Topic:
    """One name of a kind: what it is in a line, and the facts about it, each under its label."""

    kind: str
    name: str
    says: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class TopicKind:
    """Names of one kind with a line each, and what is known of one of them."""

    says: str
    such_as: str
    names: Callable[[], Mapping[str, str]]
    facts: Callable[[str], Iterable[Fact]] = lambda _: ()

    def topic(self, kind: str, name: str) -> Topic:
        """Everything about a name."""
        says = plain(self.names()[name])
        told = ((label, plain(text)) for label, text in self.facts(name))
        return Topic(kind, name, says, tuple(fact for fact in told if fact[1] not in ("", says)))


# Checks -------------------------------------------------------------------------------------------


def _checks() -> dict[str, str]:
    every = {**registered(), **readiness.CHECKS}
    return {name: first_line(run) for name, run in every.items()}


def _of_check(name: str) -> Iterator[Fact]:
    if name in readiness.DECIDE or name.startswith("ready."):
        yield "judged", "before the first change, by b200 ready and b200 deploy"
    yield from (("expects", text) for text in _expected(name))
    for machine in hardware.names():
        if why := hardware.load(machine).get("not_applicable", {}).get(name):
            yield "not judged", f"on {machine}: {why}"
    yield from (("when it fails", text) for text in _remedies(name))
    yield from (("waits for", s.waits_for) for s in STATES if name in s.checks)
    group = name.partition(".")[0]
    others = (one for one in _checks() if one.startswith(f"{group}.") and one != name)
    yield "see also", ", ".join(others)
    yield "alerts", ", ".join(one for one, rule in _alerts().items() if _covers(rule, group))
    for example, verdict in _examples().items():
        if any(f.check == name and f.status is Status.FAIL for f in verdict.findings):
            yield "try it", f"b200 judge --example {example}"


def _expected(name: str) -> Iterator[str]:
    """What the check compared a healthy node with, and how that is known."""
    entries = hardware.load("hgx-b200")["expect"].values()
    known = {e["source"]: f"{e['kind']}: {e['source']}, {e['date']}" for e in entries}
    found = (f for f in _examples()[_HEALTHY].findings if f.check == name and f.expected)
    for finding in list(found)[:_MOST_FAULTS]:
        where, _, source = finding.source.partition(": ")
        on = " on hgx-b200" if where.startswith("hardware/") else ""
        yield f"{finding.expected}{on} ({known.get(source, finding.source)})"


@cache
def _examples() -> dict[str, Verdict]:
    """The verdict of each recorded node that comes with b200kit."""
    found = {}
    for name in examples.names():
        state = plausible(examples.load(name).state)
        machine = on_bus(state, hardware.machines().values()).name
        found[name] = judge_vetted(by_hardware(machine), state)
    return found


# Tests of an acceptance run -----------------------------------------------------------------------


def _tests() -> dict[str, str]:
    runs = {
        f"acceptance.{one.name}": f"{one.tool} {one.argv}".strip() or "b200kit itself"
        for one in acceptance.table().tests
    }
    return {**runs, "acceptance.counters": "hardware counters that grew", **network.CHECKS}


def _of_test(name: str) -> Iterator[Fact]:
    table = acceptance.table()
    one = next((one for one in table.tests if f"acceptance.{one.name}" == name), None)
    if one is not None:
        lengths = (f"{level}: {long} s" for level, long in one.levels.items())
        yield "runs", "; ".join(lengths)
        yield "figures", ", ".join(one.metrics)
        yield "the tool", table.tools[one.tool].brings if one.tool else ""


def _remedies(name: str) -> Iterator[str]:
    """Faults that the check must find, and what to do then: each remedy once."""
    told: dict[str, str] = {}
    cases = [
        case
        for path in sorted(places.CORPUS.glob("*.yaml"))
        if f"check: {name}," in path.read_text(encoding="utf-8")
        for case in shipped.read(path)
    ]
    for case in sorted(cases, key=lambda case: "hardware" in case):
        for found in case.get("findings", ()):
            if found["check"] == name and found.get("status", case["fit"]) in _FAILED:
                told.setdefault(_remedy(found), case["name"])
    for remedy, fault in list(told.items())[:_MOST_FAULTS]:
        yield f"{fault} -> {remedy}"


def _remedy(found: Mapping[str, Any]) -> str:
    subject, step = found.get("subject", "node"), Action.parse(found.get("action", "none"))
    known = Finding("", Status.FAIL, subject=subject, check=found["check"], action=step)
    said: str = found.get("advice") or advice.of(known)
    return said


# Alerts -------------------------------------------------------------------------------------------


@cache
def _alerts() -> dict[str, dict[str, Any]]:
    groups = monitoring.rules()["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def _covers(rule: Mapping[str, Any], group: str) -> bool:
    """Whether an alert is about confirmed faults of a group of checks."""
    of = re.search(r'b200_fault_confirmed\{group(!?)=~"([^"]*)"', rule["expr"])
    return of is not None and (re.fullmatch(of[2], group) is None) == bool(of[1])


def _summary(rule: Mapping[str, Any]) -> str:
    text: str = rule["annotations"]["summary"]
    return re.sub(r"\{\{ \$(?:labels\.)?([a-z_]+)[^}]*\}\}", lambda match: match[1].upper(), text)


def _of_alert(name: str) -> Iterator[Fact]:
    rule = _alerts()[name]
    yield "severity", rule["labels"]["severity"]
    yield "fires", f"{' '.join(rule['expr'].split())}, for {rule.get('for', '0s')}"
    section = places.RUNBOOK.read_text(encoding="utf-8").partition(f"\n## {name}\n")[2]
    for part in section.partition("\n## ")[0].strip().split("\n\n"):
        label = "run" if part.startswith("    ") else "what to do"
        lines = part.splitlines() if label == "run" else [" ".join(part.split())]
        yield from ((label, line.strip()) for line in lines)


# Everything else ----------------------------------------------------------------------------------


@cache
def _keys() -> dict[str, problem.Schema]:
    root = problem.json_schema(spec.NodeSpec)
    return dict(reference_pages.keys(root, root))


def _of_key(name: str) -> Iterator[Fact]:
    key = _keys()[name]
    yield "value", problem.expected(key)
    yield "default", reference_pages.default_of(key)
    inner = (one.removeprefix(f"{name}.") for one in _keys() if one.startswith(f"{name}."))
    yield "keys in it", ", ".join(one for one in inner if "." not in one)


def _stages() -> dict[str, str]:
    """Each stage to its first sentence, on one line."""
    texts = reference_pages.stage_texts()
    return {name: " ".join(said.partition("\n\n")[0].split()) for name, said in texts.items()}


def _of_stage(name: str) -> Iterator[Fact]:
    _, *rest = reference_pages.stage_texts()[name].split("\n\n")
    yield from (("", " ".join(part.split())) for part in rest)
    if name == "fabric":
        for state in STATES:
            yield state.name, f"{state.waits_for} ({', '.join(state.checks)}) -> {state.remedy}"


def _of_setting(name: str) -> Iterator[Fact]:
    yield from reference_pages.facts(reference_pages.setting_entries()[name])
    yield "check", f"host.settings, subject: setting {name}"


def _outcomes() -> dict[str, str]:
    return {label: says for label, _, says in outcome.WORDS.values()}


def _diagnoses() -> dict[str, reference_pages.Entry]:
    return reference_pages.diagnoses()["diagnoses"]


def _of_outcome(label: str) -> Iterator[Fact]:
    [word] = (word for word, known in outcome.WORDS.items() if known[0] == label)
    yield "counts as", "success" if word in outcome.GOOD else "failure"
    yield "what to do", advice.of_outcome(word)


_OF_REPLICAS = {
    watchdog.REFUSED: "a replica's unit: a variable that is unsafe in production; its log names it",
    engine_probe.FAILED: "a replica's unit: the probe failed; its log names what is missing",
}


def _of_exit_code(code: str) -> Iterator[Fact]:
    for name, command in reference_pages.leaves() if int(code) != commands.USAGE else ():
        if says := getattr(command, "exit_codes", {}).get(int(code)):
            yield "", f"b200 {name}: {says}"


def _of_scenario(name: str) -> Iterator[Fact]:
    entry = reference_pages.scenarios()[name]
    yield "source", str(entry.get("source", ""))
    later = "later" in entry
    yield "try it", f"b200 lab inject NODE {name}" if later else f"b200 lab up 1 --scenario {name}"


KINDS: dict[str, TopicKind] = {
    "check": TopicKind("what is judged of a node", "nvlink.links", _checks, _of_check),
    "test": TopicKind(
        "what an acceptance run loads and judges", "acceptance.all-reduce", _tests, _of_test
    ),
    "outcome": TopicKind("how a node ended a run", "BARE", _outcomes, _of_outcome),
    "exit-code": TopicKind(
        "what a command ended with",
        "2",
        lambda: {str(c): says for c, says in (commands.EXIT_CODES | _OF_REPLICAS).items()},
        _of_exit_code,
    ),
    "cause": TopicKind(
        "why a node was not reached or observed",
        "host-key-changed",
        lambda: {fault.code: fault.advice for fault in connection_fault.FAULTS},
    ),
    "action": TopicKind(
        "what a finding asks for, cheapest first",
        "reset-gpu",
        lambda: {step.word: advice.ladder(step, "the part", "") for step in Action},
    ),
    "key": TopicKind(
        "key of an inventory",
        "gateway.certificate",
        lambda: {name: reference_pages.meaning_of(key) for name, key in _keys().items()},
        _of_key,
    ),
    "stage": TopicKind("step of a deploy", "fabric", _stages, _of_stage),
    "setting": TopicKind(
        "setting of the operating system",
        "iommu",
        lambda: {name: one["what"] for name, one in reference_pages.setting_entries().items()},
        _of_setting,
    ),
    "event": TopicKind("what a node tells the site", "replica.out", lambda: event.KINDS),
    "alert": TopicKind(
        "rule of Prometheus",
        "B200FabricFault",
        lambda: {name: _summary(rule) for name, rule in _alerts().items()},
        _of_alert,
    ),
    "diagnosis": TopicKind(
        "why a node is slow",
        "client-starved",
        lambda: {n: rule["symptom"] for n, rule in _diagnoses().items()},
        lambda name: reference_pages.facts(_diagnoses()[name]),
    ),
    "scenario": TopicKind(
        "simulated node of the lab",
        "gpu2-no-nvlink",
        lambda: {n: str(e["description"]) for n, e in reference_pages.scenarios().items()},
        _of_scenario,
    ),
}
"""Every kind of name, those that a run prints first."""


def named(words: str) -> list[Topic]:
    """What a name means, in every kind that has it; of none, by the last part of a dotted key.

    Case and spaces do not matter, as in FAILED at gate, exit 1 or not reached.
    """
    wanted = _plain(words)
    # Only an event may have a check's name, too; asking all kinds takes a second.
    kinds = ["check", "event"] if wanted in _checks() else KINDS
    known = [(kind, name) for kind in kinds for name in KINDS[kind].names()]
    at = re.fullmatch(r"(failed)-at-(.+)", wanted)
    either = at.groups() if at else (wanted.removeprefix("exit-"),)
    found = [pair for pair in known if _plain(pair[1]) in either] or [
        pair for pair in known if _plain(pair[1]).rpartition(".")[2] == wanted
    ]
    return [KINDS[kind].topic(kind, name) for kind, name in found]


def names() -> list[str]:
    """Every name, once."""
    return list(dict.fromkeys(name for kind in KINDS.values() for name in kind.names()))


def _plain(text: str) -> str:
    return text.strip().casefold().replace(" ", "-")
