"""Where events are sent: /etc/b200kit/events.json as typed values. The file is the controller's."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

CONFIG = Path("/etc/b200kit/events.json")
CREDENTIAL = "events_key"
"""Its name among the unit's credentials (systemd.exec(5), LoadCredential=)."""


@dataclass(frozen=True)
class Plan:
    """Sinks by what they need: *command*, an argument list, or ();
    *url* of a webhook, or "", with *ca_file*, the authorities it may be certified by.

    *deadline_s*: what one event may take a sink. *kept*: events that may wait.
    """

    node: str
    kept: int = 200
    deadline_s: float = 10.0
    command: tuple[str, ...] = ()
    url: str = ""
    ca_file: str = ""


def load(path: Path = CONFIG) -> Plan | None:
    """The plan; None where there is no sink. Raises OSError, or ValueError: not understood."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    try:
        return Plan(
            str(document["node"]),
            int(document["kept"]),
            float(document["deadline_s"]),
            tuple(map(str, document["command"])),
            str(document["url"]),
            str(document["ca_file"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: {type(error).__name__}: {error}") from None


def key() -> str | None:
    """The webhook's key: of the unit's credentials alone. Raises OSError."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    path = Path(directory, CREDENTIAL) if directory else None
    return path.read_text(encoding="utf-8").strip() if path and path.exists() else None
