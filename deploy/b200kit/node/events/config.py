"""Where events are sent: /etc/b200kit/events.json as typed values. The file is the controller's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from b200kit.node.lib import documents
from b200kit.node.lib.documents import Range

CONFIG = Path("/etc/b200kit/events.json")
URL, KEY = "events_url", "events_key"
"""Names of the webhook's secrets among the unit's credentials (systemd.exec(5), LoadCredential=).
Some sites' URL is the secret."""


@dataclass(frozen=True)
class EventPlan:
    """Sinks by what they need: *command*, an argument list, or (); whether there is a *webhook*,
    with *ca_file*, the authorities it may be certified by.

    *deadline_s*: what one event may take a sink. *kept*: events that may wait.
    """

    node: str
    kept: Annotated[int, Range(1)]
    deadline_s: Annotated[float, Range(0, above=True)]
    command: tuple[str, ...]
    webhook: bool
    ca_file: str


def load(path: Path = CONFIG) -> EventPlan | None:
    """The plan; None where there is no sink. Raises Malformed."""
    try:
        return documents.load(EventPlan, path)
    except FileNotFoundError:
        return None


def credential(name: str) -> str | None:
    """A secret of the webhook: of the unit's credentials alone. Raises OSError."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    path = Path(directory, name) if directory else None
    return path.read_text(encoding="utf-8").strip() if path and path.exists() else None
