"""Where events are sent: /etc/b200kit/events.json as typed values. The file is the controller's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from b200kit.node.lib import documents
from b200kit.node.lib.documents import Range

CONFIG = Path("/etc/b200kit/events.json")
CREDENTIAL = "events_key"
"""Its name among the unit's credentials (systemd.exec(5), LoadCredential=)."""


@dataclass(frozen=True)
class EventPlan:
    """Sinks by what they need: *command*, an argument list, or ();
    *url* of a webhook, or "", with *ca_file*, the authorities it may be certified by.

    *deadline_s*: what one event may take a sink. *kept*: events that may wait.
    """

    node: str
    kept: Annotated[int, Range(1)]
    deadline_s: Annotated[float, Range(0, above=True)]
    command: tuple[str, ...]
    url: str
    ca_file: str


def load(path: Path = CONFIG) -> EventPlan | None:
    """The plan; None where there is no sink. Raises Malformed."""
    try:
        return documents.load(EventPlan, path)
    except FileNotFoundError:
        return None


def key() -> str | None:
    """The webhook's key: of the unit's credentials alone. Raises OSError."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    path = Path(directory, CREDENTIAL) if directory else None
    return path.read_text(encoding="utf-8").strip() if path and path.exists() else None
