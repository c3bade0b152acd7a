"""The YAML that comes with b200kit; libyaml, where PyYAML has it, takes a sixth of the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

# Both make plain values only.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(path: Path) -> Any:
    """The document of a file that this program comes with."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506
