"""What was asked of a run, and what it did with a node: stages, changes, commands, time."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields

from b200kit.node.lib.documents import Malformed, structure
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
from b200kit.run.document import RunHead, StageRecord

_HEAD = tuple(one.name for one in fields(RunHead))
_TONES = {"ok": "idle", "changed": "good", "failed": "bad", "skipped": "idle"}


_COMMANDS = {
    "b200.py": "deploy", "check.py": "check", "ready.py": "ready", "reprovision.py": "repair",
    "find_gpu.py": "find-gpu", "smoke.py": "smoke", "tune.py": "tune",
    "burnin.py": "accept", "remove.py": "remove",
}  # fmt: skip
_USUAL = "inventories/prod.py"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The entry and its inventory, when it began, whether on real GPUs; *again*: its command."""

    entry: str
    inventory: str
    started: str
    simulated: bool
    again: str


def head_of(record: object) -> RunHead:
    """The head of a run; of one that cannot be used, why, in place of its times."""
    known = mapping(record)
    try:
        return structure(RunHead, {k: known[k] for k in ("schema", *_HEAD) if k in known})
    except Malformed as error:
        return RunHead("", show(read(record, "entry")), started_at=f"unmeasured: {error}")


def asked_of(record: object) -> RunRequest:
    """What was asked of a run; pyinfra names the inventory before the entry."""
    head = head_of(record)
    name = head.entry.rpartition("/")[2]
    place = next((i for i, word in enumerate(head.argv) if word.rpartition("/")[2] == name), 0)
    inventory = clean(head.argv[place - 1]) if place > 1 else ""
    other = f" -i {shlex.quote(inventory)}" if inventory and not _is(_USUAL, inventory) else ""
    command = f"b200 {_COMMANDS[name]}" if name in _COMMANDS else ""
    return RunRequest(
        entry=command or clean(head.entry),
        inventory=_short(inventory),
        started=clean(head.started_at).replace("T", " "),
        simulated=head.simulated,
        again=command and f"{command}{other}",
    )


def _is(usual: str, path: str) -> bool:
    return f"/{path}".endswith(f"/{usual}")


def _short(path: str) -> str:
    """A path as it was typed; of one from the root, as `b200` gives them, file and folder."""
    return "/".join(path.split("/")[-2:]) if path.startswith("/") else path


def about(record: object) -> Pairs:
    """The command, its times, and what it took of the controller."""
    head = head_of(record)
    used = vars(head.controller) if head.controller else {}
    return [
        ("command", clean(" ".join(head.argv) or head.entry)),
        ("started", clean(head.started_at)),
        ("ended", clean(head.ended_at)),
        *((f"controller {key}", show(value)) for key, value in used.items()),
    ]


@dataclass(frozen=True, slots=True)
class ShownStage:
    """One stage as text; `share` is its part of the longest one's time in percent, for its bar."""

    name: str
    status: str
    tone: str
    took: str
    share: float
    detail: str
    changes: tuple[str, ...]


def recorded(host: object) -> list[StageRecord]:
    """The stages of a host as they were recorded, in their order."""
    return list(map(_stage, items(read(host, "stages"))))


def _stage(entry: object) -> StageRecord:
    try:
        return structure(StageRecord, entry)
    except Malformed as error:
        return StageRecord("unmeasured", detail=str(error))


def stages(host: object) -> list[ShownStage]:
    """The stages of a host as a page shows them."""
    found = recorded(host)
    longest = max((stage.seconds for stage in found), default=0.0)
    return [
        ShownStage(
            name=clean(stage.name),
            status=stage.status,
            tone=_TONES[stage.status],
            took=duration(stage.seconds),
            share=100 * max(stage.seconds, 0.0) / longest if longest > 0 else 0.0,
            detail=clean(stage.detail),
            changes=tuple(map(clean, stage.changes)),
        )
        for stage in found
    ]


def took(host: object) -> str:
    """How long the host's stages took, or else its observation, or nothing."""
    total = sum(stage.seconds for stage in recorded(host))
    observed_s = number(read(host, "state", "took_s"))
    return duration(total) if total else "" if observed_s is None else duration(observed_s)


def done(host: object) -> str:
    """Changes, commands and time: ``no change, 4 commands, 0.6 s``."""
    known = {key: read(host, key) for key in ("changes", "commands")}
    parts = [counted(v, k[:-1]) for k, v in known.items() if number(v) is not None]
    parts = ["no change" if part == "0 changes" else part for part in parts]
    return ", ".join(filter(None, [*parts, took(host)]))
