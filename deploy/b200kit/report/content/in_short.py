"""A HostRecord without what only its own page and file show, so that a fleet's records stay small.

What stands beside other nodes is computed once here, from the whole record; every view of a fleet
reads it from there.
"""

from __future__ import annotations

from b200kit.report.content.facts import facts_in_short
from b200kit.report.content.proof import proven_of
from b200kit.report.content.serving import serving_line
from b200kit.report.document import items, mapping, read

_ENDED = ("outcome", "stage", "error", "commands", "changes", "exit_code", "withdrawn")
_OF_SMOKE = ("p50_", "goodput")


def in_short(host: object) -> dict[str, object]:
    """The record of a node that is shown among others; views give the same text of both."""
    known, verdict, smoke = mapping(host), read(host, "verdict"), mapping(read(host, "smoke"))
    found = [f for f in items(read(verdict, "findings")) if read(f, "status") != "pass"]
    return {
        **{key: known[key] for key in _ENDED if key in known},
        "verdict": {"fit": read(verdict, "fit"), "findings": found} if mapping(verdict) else None,
        "smoke": {
            **{key: value for key, value in smoke.items() if key.startswith(_OF_SMOKE)},
            "conditions": {"stand_in": read(host, "smoke", "conditions", "stand_in")},
        },
        "record": {key: read(host, "record", key) for key in ("outcome", "why")},
        "in_short": {
            "facts": facts_in_short(host),
            "serving": serving_line(host),
            "proof": proven_of(host),
        },
    }
