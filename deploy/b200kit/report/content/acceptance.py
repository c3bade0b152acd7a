"""The acceptance run of a node in the report of a run: its findings stand in the verdict."""

from __future__ import annotations

from b200kit.report.document import Pairs, Unmeasured, mapping, read, structured
from b200kit.run.document import AcceptanceResult


def facts(host: object) -> Pairs:
    """What was run, how its segments ended, where it lies; nothing of a run of another entry."""
    if "acceptance" not in mapping(host):
        return []
    found = structured(AcceptanceResult, read(host, "acceptance"))
    if isinstance(found, Unmeasured):
        return [("run", str(found))]
    ended = ", ".join(f"{count} {outcome}" for outcome, count in found.segments.items())
    return [
        ("run", f"{found.id}, level {found.level}"),
        ("its tests", found.fit),
        ("segments", ended or "none"),
        ("sealed", f"acceptance/{found.folder}/, signed by {found.signed_by}"),
        ("to be signed", f"acceptance/{found.folder}.html"),
    ]


def line(host: object) -> str:
    """The same on one line, or nothing."""
    found = dict(facts(host))
    if "sealed" not in found:
        return found.get("run", "")
    return f"{found['run']}: {found['segments']}; sealed: {found['sealed']}"
