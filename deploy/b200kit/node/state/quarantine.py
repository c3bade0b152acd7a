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

from dataclasses import dataclass, replace
from typing import ClassVar

from b200kit.node.lib import documents

PATH = "/var/lib/b200kit/quarantine.json"
RELEASE = "python3 -I /usr/local/lib/b200kit/node.pyz quarantine release"


@dataclass(frozen=True)
class QuarantineTrial:
    """Who may try the node, from and until when, in which boot and until how long after it."""

    who: str
    since: str
    until: str
    boot_id: str
    ends: float


@dataclass(frozen=True)
class Quarantine:
    """The mark of a node that was taken out. What it does not say is empty."""

    schema: ClassVar[str] = "b200kit/quarantine/1"

    since: str = ""
    when: str = ""
    who: str = ""
    why: str = ""
    trial: QuarantineTrial | None = None

    @property
    def reason(self) -> str:
        """Why, for a person."""
        return self.why or "it does not say why"

    def __str__(self) -> str:
        """Who, since when and why, on one line."""
        who, since = self.who or "somebody", self.since or "an unknown time"
        return f"quarantined by {who} since {since}: {self.reason}"

    def admitted(self, who: str, times: tuple[str, str], boot_id: str, ends: float) -> Quarantine:
        """With a trial, from and until two *times*, by this boot's clock until *ends*."""
        return replace(self, trial=QuarantineTrial(who, *times, boot_id, ends))

    def shut(self) -> Quarantine:
        """Without a trial."""
        return replace(self, trial=None)

    def open_trial(self, boot_id: object, uptime_s: object) -> QuarantineTrial | None:
        """The trial for which somebody may start the services now, so long after the boot."""
        if self.trial is None or not isinstance(uptime_s, int | float):
            return None
        same = self.trial.boot_id == boot_id
        return self.trial if same and uptime_s < self.trial.ends else None


def put(before: Quarantine | None, who: str, why: str, now: str) -> Quarantine:
    """The mark of a node that is taken out now; one that was out stays so since it was."""
    return Quarantine((before.since if before else "") or now, now, who, why)


def mark_of(document: object) -> Quarantine:
    """A mark that was read; one that is not understood holds, too, and lets nobody try."""
    return documents.understood(Quarantine, document) or Quarantine()
