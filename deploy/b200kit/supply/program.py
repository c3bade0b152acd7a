"""Programs that supply starts, and the one error of all that it does."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any


class SupplyRefused(Exception):
    """What cannot be had, made or trusted, in one line."""


def run(
    package: str, argv: Sequence[str], limit_s: float, **how: Any
) -> subprocess.CompletedProcess[Any]:
    """What a program did; SupplyRefused where it is not there (*package* has it), or takes longer.

    *how* as subprocess.run has it.
    """
    try:
        return subprocess.run(
            argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=limit_s, check=False, **how
        )
    except FileNotFoundError:
        raise SupplyRefused(f"{argv[0]} is not installed: apt-get install {package}") from None
    except subprocess.TimeoutExpired:
        raise SupplyRefused(f"{argv[0]} took more than {limit_s:g} s") from None
