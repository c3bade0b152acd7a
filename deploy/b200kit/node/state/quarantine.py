"""The quarantine of a node: who took it out of service, when, why, and who may try it again. Pure.

{"schema": "b200kit/quarantine/1", "since": "2026-11-21T09:40:00Z", "when": "2026-11-21T09:40:00Z",
 "who": "alice@ops", "why": "GPU 2 has no NVLink: 0 of 18 links up", "trial": null}

`since` is the first day, `when` the last word. It lies on the node's disk, so a reboot does not end
it: the boot gate refuses, and nothing serves. A trial lets one reprovisioning run start the
services to prove the node, {"who", "since", "until", "boot_id", "ends"}; it ends by itself, by the
seconds since the boot and at the latest with the boot, so a run that dies leaves the node shut
whatever the clock says. `since` and `until` are for people.
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


def admit(
    mark: Mapping[str, Any], who: str, times: tuple[str, str], boot_id: str, ends: float
) -> dict[str, Any]:
    """The same mark with a trial, from and until two *times*, by this boot's clock until *ends*."""
    since, until = times
    trial = {"who": who, "since": since, "until": until, "boot_id": boot_id, "ends": ends}
    return {**mark, "trial": trial}


def on_trial(mark: object, boot_id: object, uptime_s: object) -> bool:
    """Whether somebody may start the services now, so long after the boot."""
    trial = mark.get("trial") if isinstance(mark, Mapping) else None
    if not isinstance(trial, Mapping) or not isinstance(uptime_s, int | float):
        return False
    ends = trial.get("ends")
    same = isinstance(boot_id, str) and trial.get("boot_id") == boot_id
    return same and isinstance(ends, int | float) and uptime_s < ends


def describe(mark: object) -> str:
    """Who, since when and why, on one line."""
    entry = mark if isinstance(mark, Mapping) else {}
    who, since = entry.get("who") or "somebody", entry.get("since") or "an unknown time"
    return f"quarantined by {who} since {since}: {entry.get('why') or 'it does not say why'}"
