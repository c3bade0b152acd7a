"""Settings of the operating system as data: settings.yaml. Apart from the rest of the catalogue,
which takes a second to import: whoever judges a recorded node needs no model and no engine.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from b200kit.catalog import shipped
from b200kit.node.host import settings_table
from b200kit.node.host.settings_table import Setting

_SETTINGS = Path(__file__).resolve().parent / "settings.yaml"


@cache
def load() -> dict[str, Setting]:
    """Every setting that b200kit knows, by name."""
    return settings_table.table(shipped.read(_SETTINGS))
