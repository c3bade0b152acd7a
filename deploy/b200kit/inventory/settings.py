"""What an inventory may ask of the settings of the operating system. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from b200kit.inventory.keys.parsers import Problem
from b200kit.node.host.settings_table import Overrides, Setting


def problems(overrides: Overrides, known: Mapping[str, Setting]) -> Iterator[Problem]:
    """What an inventory asks for and cannot have."""
    for name, value in overrides:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f'; did you mean "settings.{close[0]}"?' if close else ""
            yield Problem(f"settings.{name}", f"unknown setting{hint}")
        elif value is not None and not known[name].allows(value):
            # 1 or "1", "of" or "off": what was meant is near what was written.
            near = difflib.get_close_matches(str(value), known[name].allowed.split(", "), n=1)
            hint = f'; did you mean "{near[0]}"?' if near else ""
            told = f"must be {known[name].allowed}, or None, not {value!r}{hint}"
            yield Problem(f"settings.{name}", told)
