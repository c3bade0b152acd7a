"""What dpkg left unfinished, as an observation shows it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from b200kit.node.lib.readings import is_unmeasured

VENDOR = re.compile(r"nvidia|cuda|libnv|nvlsm|datacenter-gpu")
"""Names of the vendor's packages, which b200kit may repair; all others are their owner's."""


@dataclass(frozen=True)
class Unfinished:
    """An interrupted dpkg, and packages that are not fully installed, by status."""

    interrupted: bool = False
    broken: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """ "libfoo (iF), libbar (iU)", or that dpkg was interrupted."""
        named = ", ".join(f"{name} ({status})" for name, status in self.broken.items())
        return named or ("an interrupted dpkg" if self.interrupted else "nothing")


def unfinished(state: Mapping[str, Any]) -> Unfinished:
    """What the reading shows; what was not read shows nothing (the check says that it was not)."""
    part = state.get("dpkg")
    if not isinstance(part, Mapping):
        return Unfinished()
    broken = part.get("broken")
    if not isinstance(broken, Mapping) or is_unmeasured(broken):
        broken = {}
    return Unfinished(part.get("interrupted") is True, broken)
