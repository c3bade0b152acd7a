"""Just enough YAML to read a CDI specification: block mappings, block sequences, one-line scalars.

A node has no YAML library, and nvidia-ctk writes block YAML by default. Every scalar is text.
Whatever else YAML has (anchors, tags, flow collections, block scalars, folded lines) raises
ValueError: what is not understood is not guessed.
"""

from __future__ import annotations

import re
from typing import Any

from b200kit.node.lib import documents

Line = tuple[int, str]
_KEY = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s'"\[\]{},&*!|>%@`#?-][^#]*?)\s*:"""
    r"(?:\s+(?P<value>.*))?$"
)
_NOT_PLAIN = re.compile(r"[\[\]{},&*!|>%@`?#]")


def load(text: str) -> Any:
    """The one document of *text* as dicts, lists and texts; an empty one is {}."""
    lines = [
        (len(line) - len(line.lstrip(" ")), line.strip())
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#") and line.rstrip() != "---"
    ]
    if any("\t" in line for line in text.splitlines()):
        raise ValueError("it has tabs")
    if not lines:
        return {}
    try:
        value, rest = _block(lines)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if rest:
        raise ValueError(f"{rest[0][1]!r} is indented unlike what is above it")
    return value


def _block(lines: list[Line]) -> tuple[Any, list[Line]]:
    """The block that the first line begins, and the lines after it."""
    if _is_item(lines[0][1]):
        return _sequence(lines)
    return _mapping(lines) if _KEY.match(lines[0][1]) else (_scalar(lines[0][1]), lines[1:])


def _is_item(content: str) -> bool:
    return content == "-" or content.startswith("- ")


def _sequence(lines: list[Line]) -> tuple[list[Any], list[Line]]:
    indent, items = lines[0][0], []
    while lines and lines[0][0] == indent and _is_item(lines[0][1]):
        content = lines[0][1][1:]
        inner = content.lstrip(" ")
        if inner:
            # "- key: value" is a mapping that begins where the key stands.
            lines = [(indent + 1 + len(content) - len(inner), inner), *lines[1:]]
        else:
            lines = lines[1:]
            if not lines or lines[0][0] <= indent:
                items.append("")
                continue
        item, lines = _block(lines)
        items.append(item)
    return items, lines


def _mapping(lines: list[Line]) -> tuple[dict[str, Any], list[Line]]:
    indent, found = lines[0][0], {}
    while lines and lines[0][0] == indent:
        match = _KEY.match(lines[0][1])
        if not match or _is_item(lines[0][1]):
            break
        key, lines = _scalar(match["key"]), lines[1:]
        if key in found:
            raise ValueError(f"the key {key!r} is there twice")
        if match["value"] and not match["value"].startswith("#"):
            found[key] = _scalar(match["value"])
        elif _is_below(lines, indent):
            found[key], lines = _block(lines)
        else:
            found[key] = ""
    return found, lines


def _is_below(lines: list[Line], indent: int) -> bool:
    """Whether the next line is the value of a key; the items of a list may stand right below it."""
    if not lines:
        return False
    return lines[0][0] > indent or (lines[0][0] == indent and _is_item(lines[0][1]))


def _scalar(text: str) -> Any:
    """A scalar of one line; "[]" and "{}" are the only flow collections."""
    text = text.strip()
    if text in ("[]", "{}"):
        return [] if text == "[]" else {}
    if text.startswith('"'):
        return documents.decode(str, text)
    if text.startswith("'"):
        if not re.fullmatch(r"'(?:[^']|'')*'", text):
            raise ValueError(f"{text!r} is not a quoted text")
        return text[1:-1].replace("''", "'")
    if _NOT_PLAIN.match(text) or re.search(r":(\s|$)", text):
        raise ValueError(f"{text!r} is more YAML than is understood here")
    return re.sub(r"\s+#.*", "", text)
