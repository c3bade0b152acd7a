"""`merge-json`: set a few keys of a JSON file that belongs to somebody else, and leave the rest.

Document on stdin: {"path", "set": {...}, "extend": {key: [entries]}, "check": [argv] or [],
"markers": [paths]}. "set" is merged into the file's objects; "extend" adds missing entries to lists
that are there and adds no list. Prints {"changed": [dotted keys]}; nothing is written when that is
empty. Exit status: 0, or 1 with one line when the file is left as it is.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from b200kit.node.lib import documents, user_file
from b200kit.node.lib.documents import Object
from b200kit.node.lib.user_file import FileRefused


def main(args: list[str]) -> int:
    """Read the document, merge, print what changed."""
    del args
    document = documents.request()
    try:
        changed = merge_file(document)
    except FileRefused as refused:
        print(user_file.message(refused), file=sys.stderr)
        return 1
    print(json.dumps({"changed": changed}))
    return 0


def merge_file(document: Object) -> list[str]:
    """Merge as the document says; the keys that changed. Raises Refused."""
    path = Path(document["path"])
    text = user_file.read(path)
    content = parse(path, text or "")
    changed = merge(content, document["set"], path)
    changed += extend(content, document.get("extend", {}), path)
    if changed:
        user_file.replace(
            path,
            dump(content, text or ""),
            document.get("markers", []),
            document.get("check", []),
        )
    return changed


def parse(path: Path, text: str) -> Object:
    """The file's object; an empty file is {}, as docker takes it. Raises Refused."""
    if not text.strip():
        return {}
    try:
        return documents.decode(Object, text, documents.LARGE, path)
    except documents.Malformed as error:
        raise FileRefused(str(error)) from None


def merge(content: Object, desired: Object, path: Path, above: str = "") -> list[str]:
    """Set every leaf of *desired* in *content*, in place; the dotted keys that changed."""
    changed = []
    for key, value in desired.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            inner = content.setdefault(key, {})
            if not isinstance(inner, dict):
                raise FileRefused(f"{path}: {name} is no object")
            changed += merge(inner, value, path, f"{name}.")
        elif key not in content or content[key] != value or type(content[key]) is not type(value):
            content[key] = value
            changed.append(name)
    return changed


def extend(content: Object, desired: Object, path: Path) -> list[str]:
    """Add what is missing to lists that are there; the keys that changed."""
    changed = []
    for key, entries in desired.items():
        if key not in content:
            continue
        if not isinstance(content[key], list):
            raise FileRefused(f"{path}: {key} is no list")
        missing = [entry for entry in entries if entry not in content[key]]
        if missing:
            content[key] += missing
            changed.append(key)
    return changed


def dump(content: Object, before: str) -> str:
    """JSON with the file's own indentation, four blanks where it has none."""
    found = re.search(r"^([ \t]+)\S", before, re.MULTILINE)
    text = json.dumps(content, indent=found[1] if found else 4, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(content, indent=4)
    return text + "\n"
