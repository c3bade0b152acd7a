"""Versions of the driver, compared by their numbers."""

from __future__ import annotations


def version_tuple(version: str) -> tuple[int, ...]:
    """Numbers of a dotted version, for comparison: "580.126.20" -> (580, 126, 20)."""
    return tuple(int(part) for part in version.split("."))


def branch(version: str) -> int:
    """Driver branch of a version: "580.126.20" -> 580."""
    return version_tuple(version)[0]
