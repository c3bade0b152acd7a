"""What is known of each engine as data: the flags of its versions, and their weaknesses.

vllm-0.33.0.yaml      made by snapshot.py, one file a version. With `like`, only what differs from
                      that version: a flag that is null, and variables under `lacks`, are absent
advisories.yaml       the lowest safe version of each, with the reasons
../levers/vllm.yaml   what it is given by goal and model, and which numbers its flags take
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from b200kit.catalog import shipped
from b200kit.engines.flags import Advisory, EngineKnowledge, Version, numbers, version
from b200kit.engines.levers import Lever

DIRECTORY = Path(__file__).parent
LEVERS = DIRECTORY.parent / "levers"
_ADVISORIES = DIRECTORY / "advisories.yaml"


@cache
def load() -> dict[str, EngineKnowledge]:
    """Everything known, by the engine's name."""
    advisories = shipped.read(_ADVISORIES)
    versions = [_version(path) for path in DIRECTORY.glob("*-[0-9]*.yaml")]
    return {
        name: EngineKnowledge(
            versions={v.version: v for v in _ordered(versions) if v.engine == name},
            advisories=tuple(Advisory(**entry) for entry in entries),
            levers=tuple(map(_lever, _levers(name)["levers"])),
            refused=_levers(name).get("refused", {}),
        )
        for name, entries in advisories.items()
    }


def contexts() -> dict[str, int]:
    """Tokens of a context where an inventory names none, by family of models."""
    return dict(shipped.read(LEVERS / "contexts.yaml"))


def _levers(engine: str) -> dict[str, Any]:
    return dict(shipped.read(LEVERS / f"{engine}.yaml"))


def _lever(entry: dict[str, Any]) -> Lever:
    """A list in the file is a tuple in a lever."""
    plain: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in entry.items()}
    return Lever(**plain)


def _version(path: Path) -> Version:
    document = _document(path)
    return version(document, _levers(document["engine"]).get("ranges", {}))


def _document(path: Path) -> dict[str, Any]:
    """What a version takes, with all that it has in common with the one that it is like."""
    own: dict[str, Any] = shipped.read(path)
    if "like" not in own:
        return own
    other = _document(path.with_name(f"{own['like']}.yaml"))
    flags = {name: entry for name, entry in (other["flags"] | own["flags"]).items() if entry}
    kept = {*other["environment"].split()} - {*own["lacks"].split()}
    return own | {"flags": flags, "environment": " ".join([*kept, own["environment"]])}


def _ordered(versions: list[Version]) -> list[Version]:
    return sorted(versions, key=lambda known: numbers(known.version))
