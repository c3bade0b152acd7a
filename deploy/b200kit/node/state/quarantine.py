"""The quarantine of a node: who took it out of service, when, why, and who may try it again. Pure.

{"schema": "b200kit/quarantine/1", "since": "2026-11-21T09:40:00Z", "when": "2026-11-21T09:40:00Z",
 "who": "alice@ops", "why": "GPU 2 has no NVLink: 0 of 18 links up", "trial": null}

`since` is the first day, `when` the last word. It lies on the node's disk, so a reboot does not end
it: the boot gate refuses, and nothing serves. A trial lets one reprovisioning run start the
services to prove the node, {"who", "since", "until"}; it ends by itself, so a run that dies leaves
the node shut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCHEMA = "b200kit/quarantine/1"
PATH = "/var/lib/b200kit/quarantine.json"
RELEASE = "python3 -I /usr/local/lib/b200kit/node.pyz quarantine release"


def put(before: object, who: str, why: str, now: str) -> dict[str, Any]:
    """The mark of a node that is taken out now; one that was out stays so since it was."""
    entry = before if isinstance(before, Mapping) else {}
    since = str(entry.get("since") or now)
    return {"schema": SCHEMA, "since": since, "when": now, "who": who, "why": why, "trial": None}


def admit(mark: Mapping[str, Any], who: str, now: str, until: str) -> dict[str, Any]:
    """The same mark with a trial; times as "2026-11-21T09:40:00Z", which sort as text."""
    return {**mark, "trial": {"who": who, "since": now, "until": until}}


def on_trial(mark: object, now: str) -> bool:
    """Whether somebody may start the services now. A clock that went back ends a trial, too."""
    trial = mark.get("trial") if isinstance(mark, Mapping) else None
    if not isinstance(trial, Mapping):
        return False
    since, until = trial.get("since"), trial.get("until")
    return isinstance(since, str) and isinstance(until, str) and since <= now < until


def describe(mark: object) -> str:
    """Who, since when and why, on one line."""
    entry = mark if isinstance(mark, Mapping) else {}
    who, since = entry.get("who") or "somebody", entry.get("since") or "an unknown time"
    return f"quarantined by {who} since {since}: {entry.get('why') or 'it does not say why'}"
