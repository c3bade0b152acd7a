"""The key `settings`: settings of the operating system, and their faults. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit.inventory.keys.problem import Problem, did_you_mean
from b200kit.node.host.settings_table import Overrides, Setting


def problems(overrides: Overrides, known: Mapping[str, Setting]) -> Iterator[Problem]:
    """Unknown settings, and values that a setting cannot have."""
    for name, value in overrides:
        if name not in known:
            hint = did_you_mean(name, known, "settings.")
            yield Problem(f"settings.{name}", f"unknown setting{hint}")
        elif value is not None and not known[name].allows(value):
            # 1 or "1", "of" or "off": what was meant is near what was written.
            hint = did_you_mean(str(value), known[name].allowed.split(", "))
            message = f"must be {known[name].allowed}, or None, not {value!r}{hint}"
            yield Problem(f"settings.{name}", message)
