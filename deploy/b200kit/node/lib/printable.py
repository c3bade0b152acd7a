"""Text of others, fit for a terminal: what is not printed as itself stands there as an escape."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return *text* with controls, line separators and marks of direction as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
