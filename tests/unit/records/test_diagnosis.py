"""Each diagnosis fires on its own recorded figures and on no other's, and quotes what it read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b200kit.node.lib.documents import Malformed, structure
from b200kit.records import diagnosis
from b200kit.records.diagnosis import Condition, Diagnoses, Rule, Symptom, diagnose
from tests.messages import assert_message
from tests.unit.records.diagnoses import NAMES, document, innocent

KNOWN = diagnosis.load()
RULES, SYMPTOMS = dict(KNOWN.diagnoses), dict(KNOWN.symptoms)
CONDITIONS = [(name, n) for name, rule in RULES.items() for n in range(len(rule.when))]


def found(name: str, known: dict[str, Rule] = RULES) -> dict[str, Any]:
    """The diagnosis of a document by its name."""
    return diagnose(document(name), replace(KNOWN, diagnoses=known))


def fired(result: dict[str, Any]) -> list[str]:
    """Names of what fired."""
    return [entry["name"] for entry in result["fired"]]


def unlooked(result: dict[str, Any]) -> dict[str, str]:
    """Why each could not be looked at, by name."""
    return {entry["name"]: entry["why"] for entry in result["unlooked"]}


def test_nothing_fires_on_a_healthy_run_and_everything_was_looked_at() -> None:
    result = found("healthy")
    assert (fired(result), result["unlooked"]) == ([], [])
    assert set(result["cleared"]) == set(RULES)


def test_every_diagnosis_has_figures_of_its_own() -> None:
    assert set(NAMES) == set(RULES)


# The whole matrix: every rule against every fault.
@pytest.mark.parametrize("name", NAMES)
def test_diagnosis_fires_on_its_own_figures_and_no_other_does(name: str) -> None:
    assert fired(found(name)) == [name]


@pytest.mark.parametrize("name", innocent())
def test_what_misses_a_fault_by_one_condition_is_not_taken_for_it(name: str) -> None:
    assert fired(found(name)) == innocent()[name].get("fires", [])


def without(rule: Rule, part: str, gone: Condition) -> Rule:
    """A rule that lacks one of its conditions."""
    rest: Any = {part: tuple(c for c in getattr(rule, part) if c is not gone)}
    return replace(rule, **rest)


def weakened() -> list[tuple[str, Rule]]:
    """Every rule without one of its conditions, by its name."""
    return [
        (name, without(rule, part, gone))
        for name, rule in RULES.items()
        for part in ("when", "unless")
        for gone in getattr(rule, part)
        if part == "unless" or len(rule.when) > 1
    ]


@pytest.mark.parametrize(("rule_name", "rule"), weakened(), ids=lambda value: str(value)[:60])
def test_every_condition_is_needed(rule_name: str, rule: Rule) -> None:
    names = [*NAMES, *innocent(), "healthy"]
    right = {name: fired(found(name)) for name in names}
    assert {name: fired(found(name, RULES | {rule_name: rule})) for name in names} != right


@pytest.mark.parametrize("name", NAMES)
def test_without_its_rule_nothing_explains_the_figures(name: str) -> None:
    assert fired(found(name, {k: v for k, v in RULES.items() if k != name})) == []


@pytest.mark.parametrize("name", NAMES)
def test_evidence_quotes_every_value_that_was_held_against_a_limit(name: str) -> None:
    entry = found(name)["fired"][0]
    rule, shown = RULES[name], document(name)
    for position, condition in enumerate(rule.when):
        value = SYMPTOMS[condition.read].value(shown)
        assert f"{value:.4g}" in entry["evidence"][position]
        assert str(condition) in entry["evidence"][position]
    assert entry["change"] == rule.change
    assert entry["source"].split(":")[0] in ("measured", "quoted", "inferred")


@pytest.mark.parametrize(("name", "position"), CONDITIONS)
def test_unmeasured_reading_neither_fires_nor_passes(name: str, position: int) -> None:
    unread = {RULES[name].when[position].read: Symptom("gone", "gone")}
    host = {**document(name), "gone": {"unmeasured": "nobody looked"}}
    result = diagnose(host, replace(KNOWN, symptoms=SYMPTOMS | unread))
    assert name not in fired(result)
    assert name not in result["cleared"]
    assert unlooked(result)[name] == "not measured: nobody looked"


def test_times_of_a_starved_client_are_not_interpreted() -> None:
    shown = document("queueing", {"smoke.client.starved": True})
    result = diagnose(shown, KNOWN)
    assert fired(result) == ["client-starved"]
    assert "the client starved" in unlooked(result)["queueing"]
    assert set(result["cleared"]) == {name for name, r in RULES.items() if not r.by_client} - {
        "client-starved"
    }


UNREAD: dict[str, object] = {"smoke.gpus": {"unmeasured": "no NVML"}}


def test_uneven_replicas_say_what_could_not_be_ruled_out() -> None:
    entry = diagnose(document("uneven-replicas", UNREAD), KNOWN)["fired"]
    assert [e["name"] for e in entry] == ["uneven-replicas"]
    assert_message(entry[0]["evidence"][-1])


def test_clocks_of_another_hour_can_show_a_slowdown_but_not_that_there_was_none() -> None:
    assert "throttling" in unlooked(diagnose(document("healthy", UNREAD), KNOWN))
    slow: dict[str, object] = {"state.gpus": [{"clocks_event_reasons": one} for one in (1, 0x80)]}
    assert fired(diagnose(document("healthy", UNREAD | slow), KNOWN)) == ["throttling"]


def test_placement_that_nobody_judged_is_not_right() -> None:
    idle = {"check": "placement.cpus", "status": "pass", "subject": "node",
            "summary": "no placement of replicas is asked for"}  # fmt: skip
    shown = document("healthy", {"verdict.findings": [idle]})
    assert "numa-off" in unlooked(diagnose(shown, KNOWN))


def test_p99_is_taken_where_it_is_stated() -> None:
    near = {"smoke.main.ttft.p95_ms": 30.0}
    assert "queueing" not in fired(diagnose(document("queueing", near), KNOWN))
    far = near | {"smoke.main.ttft.p99_ms": 300.0}
    assert fired(diagnose(document("queueing", far), KNOWN)) == ["queueing"]


ROW = {"symptom": "s", "when": [{"read": "odd", "above": 0}], "cause": "c", "change": "d",
       "source": "inferred"}  # fmt: skip
ODD = {"words": "odd", "read": "smoke.odd"}


@pytest.mark.parametrize(
    ("change", "symptom"),
    [
        ({"when": [{"read": "ood", "above": 0}]}, {}),
        ({"when": [{"read": "odd"}]}, {}),
        ({"when": [{"read": "odd", "above": 0, "below": 3}]}, {}),
        ({"when": [{"read": "odd", "over": 0}]}, {}),
        ({"when": [{"read": "odd", "above": "many"}]}, {}),
        ({"also": ["ood"]}, {}),
        ({"cause": None}, {}),
        ({}, {"read": "median(smoke.odd)"}),
        ({}, {"read": "smoke.odd / "}),
        ({}, {"read": "first(smoke.odd"}),
        ({}, {"read": "smoke.odd)"}),
    ],
)
def test_rule_or_symptom_that_cannot_be_used_is_refused_by_name(
    change: dict[str, Any], symptom: dict[str, Any]
) -> None:
    row = {k: v for k, v in (ROW | change).items() if v is not None}
    with pytest.raises(Malformed, match=r"(diagnoses|symptoms)\.odd") as refused:
        structure(Diagnoses, {"symptoms": {"odd": ODD | symptom}, "diagnoses": {"odd": row}})
    assert_message(str(refused.value))


def test_readings_of_many_places_are_all_there_or_none_is() -> None:
    replicas: dict[str, object] = {"smoke.direct.direct-1.tpot.p50_ms": None}
    shown = document("uneven-replicas", replicas)
    assert "uneven-replicas" in unlooked(diagnose(shown, KNOWN))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)


@given(value=JSON, key=st.sampled_from(["state", "verdict"]))
def test_no_state_and_no_verdict_makes_it_raise(value: object, key: str) -> None:
    shown = document("healthy", {key: value})
    assert fired(diagnose(shown, KNOWN)) == []
    diagnose(document("healthy", {"verdict": {"findings": value}}), KNOWN)
