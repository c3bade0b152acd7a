"""The words of a reading that the running driver has no call for. Pure."""

from __future__ import annotations

from b200kit.node.lib.readings import is_digits


def not_offered(driver: str, first: int) -> str:
    """Why there is no value: the driver is of a branch before the first that offers it."""
    return f"not offered by driver {driver} (first in {first})"


def branch(driver: str) -> int | None:
    """A driver's branch, 570 of "570.133.20"; None where that is no version."""
    text = driver.partition(".")[0]
    return int(text) if is_digits(text) else None
