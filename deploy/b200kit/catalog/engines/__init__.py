"""What is known of each engine as data: the flags of its versions, and their weaknesses.

vllm-0.33.0.yaml      made by snapshot.py, one file a version
advisories.yaml       the lowest safe version of each, with the reasons
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from b200kit.engines.flags import Advisory, Known, Version, numbers, version

DIRECTORY = Path(__file__).parent
_ADVISORIES = DIRECTORY / "advisories.yaml"


@cache
def load() -> dict[str, Known]:
    """Everything known, by the engine's name."""
    advisories = yaml.safe_load(_ADVISORIES.read_text(encoding="utf-8"))
    versions = [_version(path) for path in DIRECTORY.glob("*-[0-9]*.yaml")]
    return {
        name: Known(
            versions={v.version: v for v in _ordered(versions) if v.engine == name},
            advisories=tuple(Advisory(**entry) for entry in entries),
        )
        for name, entries in advisories.items()
    }


def _version(path: Path) -> Version:
    # Tens of kilobytes each: the C loader takes a tenth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return version(yaml.load(path.read_text(encoding="utf-8"), Loader=loader))  # noqa: S506


def _ordered(versions: list[Version]) -> list[Version]:
    return sorted(versions, key=lambda known: numbers(known.version))
