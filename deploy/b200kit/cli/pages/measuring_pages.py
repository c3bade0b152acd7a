"""docs/reference/diagnoses.md and run-conditions.md: what figures mean, and what decided them."""

from __future__ import annotations

from b200kit.cli.pages.markdown import table
from b200kit.records import diagnosis
from b200kit.records.conditions import Field, fields
from b200kit.records.diagnosis import Condition, Rule

_DIAGNOSES = """\
# Diagnoses

Made by `python -m b200kit.cli.reference_pages all`; do not edit.

Every run applies all of these to its result. One fires when every condition of `when` holds and
none of `unless`. A reading that is unmeasured neither fires nor clears a rule; it is listed as not
looked at. Thresholds are inferred unless the source says otherwise.
"""
_SYMPTOMS = """\
## Symptoms

Read from a host's part of a run's document, `reports/RUN/NODE.json.gz`; `*` is every entry, -1 the
last.
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
    known = diagnosis.load()
    symptoms = (
        (f"`{name}`", f"{one.words}{one.unit and f' ({one.unit.strip()})'}", f"`{one.read}`")
        for name, one in known.symptoms.items()
    )
    sections = (
        f"## {name}\n\n{rule.symptom[0].upper()}{rule.symptom[1:]}.\n\n"
        + table(("", ""), rows_of(rule))
        for name, rule in known.diagnoses.items()
    )
    return "\n".join(
        [_DIAGNOSES, *sections, _SYMPTOMS, table(("symptom", "what", "read from"), symptoms)]
    )


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


def _conditions(conditions: tuple[Condition, ...]) -> str:
    return "; ".join(f"`{one.read}` {one}" for one in conditions)


def run_conditions_markdown() -> str:
    """docs/reference/run-conditions.md."""
    head = ("field", "what", "read from", "role", "needed", "slack")
    return _CONDITIONS + table(head, map(_field, fields().values()))


def _field(field: Field) -> tuple[str, ...]:
    return (
        f"`{field.name}`",
        field.words,
        f"`{field.read}`",
        field.role.value,
        "yes" if field.needed else "",
        f"{field.slack:g}" if field.slack else "",
    )
