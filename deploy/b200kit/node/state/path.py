"""What stands at a dotted path of a JSON document, or why nothing does. Pure.

"state.gpus.*.vbios" is what every GPU says: the one value when all say the same, else all of them.
"""

from __future__ import annotations

from b200kit.node.state.view import Unmeasured, Unread, View


def reach(document: object, path: str) -> object:
    """The value at *path*; Unmeasured with the first reason met on the way."""
    head, star, rest = path.partition("*")
    value = View(document).reading(*filter(None, head.split(".")))
    if not star or isinstance(value, Unmeasured):
        return value
    return _shared(_entries(value), rest, head.strip("."))


def _entries(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _shared(entries: list[object], rest: str, where: str) -> object:
    """What all entries say, once when it is the same."""
    found = [reach(entry, rest.strip(".")) for entry in entries]
    if not found:
        return Unmeasured(f"{where} has no entry")
    reason = next((value for value in found if isinstance(value, Unmeasured)), None)
    if reason:
        return reason
    return found[0] if all(value == found[0] for value in found) else found


def number(document: object, path: str) -> float:
    """The number at *path*; raises Unread for anything else, true and NaN among it."""
    value = reach(document, path)
    if isinstance(value, Unmeasured):
        raise Unread(path, value.reason)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise Unread(path, f"{path} is no number")
    return float(value)


def known_number(document: object, path: str) -> float | None:
    """The same, None where there is none."""
    try:
        return number(document, path)
    except Unread:
        return None
