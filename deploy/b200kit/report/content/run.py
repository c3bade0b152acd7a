"""What was asked of a run, and what it did with a node: stages, changes, commands, time."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.report.document import (
    Pairs,
    clean,
    counted,
    duration,
    items,
    mapping,
    number,
    read,
    show,
)
from b200kit.report.outcome import hosts_of

_TONES = {"ok": "idle", "changed": "good", "failed": "bad", "skipped": "idle"}


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The entry and its inventory as they were typed, when it began, and whether on real GPUs."""

    entry: str
    inventory: str
    started: str
    simulated: bool


def asked_of(record: object) -> RunRequest:
    """What was asked of a run; pyinfra names the inventory before the entry."""
    argv, entry = list(map(show, items(read(record, "argv")))), show(read(record, "entry"))
    name = entry.rpartition("/")[2]
    place = next((i for i, word in enumerate(argv) if word.rpartition("/")[2] == name), 0)
    inventory = argv[place - 1] if place > 1 else ""
    rows = [row for host in hosts_of(record).values() for row in items(read(host, "layout"))]
    return RunRequest(
        entry=argv[place] if place else entry,
        inventory=inventory,
        started=show(read(record, "started_at")).replace("T", " "),
        # In a lab one process on CPUs may stand for all GPUs of a replica.
        simulated=inventory.rpartition("/")[2] == "lab.py"
        or any(read(row, "processes") == 1 for row in rows),
    )


def about(record: object) -> Pairs:
    """The command, its times, and what the controller said of itself."""
    argv, controller = items(read(record, "argv")), read(record, "controller")
    said = mapping(controller)
    return [
        ("command", " ".join(map(show, argv)) or show(read(record, "entry"))),
        ("started", show(read(record, "started_at"))),
        ("ended", show(read(record, "ended_at"))),
        *((f"controller {clean(key)}", show(value)) for key, value in said.items()),
        *([] if said else [("controller", show(controller))]),
    ]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage as text; `share` is its part of the longest one's time in percent, for its bar."""

    name: str
    status: str
    tone: str
    took: str
    share: float
    detail: str
    changes: tuple[str, ...]


def stages(host: object) -> list[Stage]:
    """The stages of a HostRecord, in their order."""
    entries = items(read(host, "stages"))
    longest = max((number(read(entry, "seconds")) or 0.0 for entry in entries), default=0.0)
    found = []
    for entry in entries:
        seconds, status = number(read(entry, "seconds")), show(read(entry, "status"))
        detail = read(entry, "detail")
        found.append(
            Stage(
                name=show(read(entry, "name")),
                status=status,
                tone=_TONES.get(status, "unknown"),
                took=show(read(entry, "seconds")) if seconds is None else duration(seconds),
                share=100 * max(seconds or 0.0, 0.0) / longest if longest > 0 else 0.0,
                detail=clean(detail) if isinstance(detail, str) else "",
                changes=tuple(map(show, items(read(entry, "changes")))),
            )
        )
    return found


def took(host: object) -> str:
    """How long the host's stages took, or else its observation, or nothing."""
    spans = [number(read(stage, "seconds")) for stage in items(read(host, "stages"))]
    total = sum(span for span in spans if span is not None)
    observed_s = number(read(host, "state", "took_s"))
    return duration(total) if total else "" if observed_s is None else duration(observed_s)


def done(host: object) -> str:
    """Changes, commands and time: ``no change, 4 commands, 0.6 s``."""
    known = {key: read(host, key) for key in ("changes", "commands")}
    parts = [counted(v, k[:-1]) for k, v in known.items() if number(v) is not None]
    parts = ["no change" if part == "0 changes" else part for part in parts]
    return ", ".join(filter(None, [*parts, took(host)]))
