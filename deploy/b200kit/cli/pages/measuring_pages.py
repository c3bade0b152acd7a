"""docs/reference/diagnoses.md and run-conditions.md: what figures mean, and what decided them."""

from __future__ import annotations

from pathlib import Path

from b200kit import catalog
from b200kit.catalog import shipped
from b200kit.cli.pages.markdown import table
from b200kit.records import diagnosis
from b200kit.records.conditions import FIELDS, Field
from b200kit.records.diagnosis import Condition, Rule

_RULES = Path(catalog.__file__).parent / "diagnoses.yaml"

_DIAGNOSES = """\
# Diagnoses

Made by `python -m b200kit.cli.reference_pages all`; do not edit.

Every run applies all of these to its result. One fires when every condition of `when` holds and
none of `unless`. A reading that is unmeasured neither fires nor clears a rule; it is listed as not
looked at. Thresholds are inferred unless the source says otherwise.
"""
_CONDITIONS = """\
# Run conditions

Made by `python -m b200kit.cli.reference_pages all`; do not edit.

The fields of `b200kit/run-conditions/1`, collected with every measured run
([Measure](../measure.md#baseline)). A result without a *needed* field is not stored.
Numbers that differ by no more than `slack` count as equal.

"""


def diagnoses_markdown() -> str:
    """docs/reference/diagnoses.md."""
    return "\n".join([_DIAGNOSES, *map(_rule, rules())])


def rules() -> tuple[Rule, ...]:
    """Every diagnosis."""
    return diagnosis.rules(shipped.read(_RULES))


def rows_of(rule: Rule) -> list[tuple[str, str]]:
    """What decides a diagnosis, what it means, and who says so."""
    rows = [
        ("when", _conditions(rule.when)),
        ("unless", _conditions(rule.unless)),
        ("cause", rule.cause),
        ("change", rule.change),
        ("source", rule.source),
    ]
    return [row for row in rows if row[1]]


def _rule(rule: Rule) -> str:
    heading = f"## {rule.name}\n\n{rule.symptom[0].upper()}{rule.symptom[1:]}.\n\n"
    return heading + table(("", ""), rows_of(rule))


def _conditions(conditions: tuple[Condition, ...]) -> str:
    limits = (f"`{c.symptom}` {c.limit.replace('_', ' ')} {c.threshold:g}" for c in conditions)
    return "; ".join(limits)


def run_conditions_markdown() -> str:
    """docs/reference/run-conditions.md."""
    head = ("field", "what", "source", "role", "needed", "slack")
    return _CONDITIONS + table(head, map(_field, FIELDS))


def _field(field: Field) -> tuple[str, ...]:
    return (
        f"`{field.name}`",
        field.words,
        f"`{field.source}`",
        field.role.value,
        "yes" if field.needed else "",
        f"{field.slack:g}" if field.slack else "",
    )
