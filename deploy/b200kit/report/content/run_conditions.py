"""The run conditions of the newest measurement: all that decided its figures, by role."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.records.conditions_fields import FIELDS, Role
from b200kit.report.document import Pairs, Unmeasured, mapping, read, show

TITLES = {
    Role.IDENTITY: "the run",
    Role.LOAD: "load: the same, or not comparable",
    Role.SYSTEM: "system",
    Role.CONDITION: "conditions",
}


@dataclass(frozen=True, slots=True)
class RunConditions:
    """The groups of fields as text, a line over them; `why` is set where there are none."""

    why: str
    summary: str
    groups: tuple[tuple[str, Pairs], ...]


def run_conditions_of(host: object) -> RunConditions:
    """Return the run conditions in the record document of a HostRecord."""
    document = read(host, "record", "conditions")
    if isinstance(document, Unmeasured) or not mapping(read(document, "fields")):
        why = document if isinstance(document, Unmeasured) else Unmeasured("it has no fields")
        return RunConditions(str(why), "", ())
    found = {field: read(document, "fields", field.name) for field in FIELDS}
    groups = tuple(
        (
            title,
            [
                (field.words, show_whole(value))
                for field, value in found.items()
                if field.role is role
            ],
        )
        for role, title in TITLES.items()
    )
    blind = sum(isinstance(value, Unmeasured) for value in found.values())
    return RunConditions("", f"{len(FIELDS)} fields, {blind} of them unmeasured", groups)


def show_whole(value: object) -> str:
    """Return a field in one line, whole; a map of settings as its entries."""
    entries = mapping(value)
    if entries:
        return "; ".join(f"{key}={show(entry)}" for key, entry in sorted(entries.items()))
    return show(value)
