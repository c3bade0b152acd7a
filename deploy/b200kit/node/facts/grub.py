"""Which kernel GRUB would boot, as far as its files show: a pure reading of grub.cfg and grubenv.

grub-mkconfig writes entries as `menuentry 'TITLE' ... $menuentry_id_option 'ID' {` within submenus
and the default as `set default="0"`, or as "${saved_entry}" where grubenv decides. A default is an
index, a title or an id, with ">" between a submenu and its entry (GRUB manual, "default").
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from b200kit.node.lib.readings import is_digits

_OPENS = re.compile(r"^\s*(menuentry|submenu)\s+(.*)\{\s*$")
_LINUX = re.compile(r"^\s*linux(?:efi|16)?\s+(\S+)")
_DEFAULT = re.compile(r"""^\s*set default=(["']?)(.*)\1\s*$""")
_ID = ("$menuentry_id_option", "--id")
_DEPTH = 8


@dataclass
class MenuEntry:
    """A menu's line: what it can be chosen by, the kernel it boots, or the menu below it."""

    names: tuple[str, ...] = ()
    kernel: str | None = None
    below: list[MenuEntry] = field(default_factory=list)


def default_kernel(config: str, environment: str = "") -> str:
    """Release of the kernel that boots next, such as "6.1.0-28-amd64"; ValueError when unclear."""
    root = menu(config)
    chosen = default(config, saved(environment))
    entry = choose(root, chosen)
    if entry is None:
        raise ValueError(f"grub.cfg has no entry {chosen!r}")
    if entry.kernel is None:
        raise ValueError(f"the entry {chosen!r} boots no Linux kernel of ours")
    return entry.kernel


def menu(config: str) -> MenuEntry:
    """The tree of entries. Other blocks (functions, if) are passed over by their braces."""
    root = MenuEntry()
    open_blocks: list[MenuEntry | None] = [root]
    for line in config.splitlines():
        opens = _OPENS.match(line)
        inner = next((block for block in reversed(open_blocks) if block), root)
        if opens:
            entry = MenuEntry(_names(opens[2]))
            inner.below.append(entry)
            open_blocks.append(entry)
        elif line.rstrip().endswith("{"):
            open_blocks.append(None)
        elif line.strip() == "}" and len(open_blocks) > 1:
            open_blocks.pop()
        elif (linux := _LINUX.match(line)) and inner is not root:
            inner.kernel = inner.kernel or _release(linux[1])
    return root


def _names(words: str) -> tuple[str, ...]:
    parts = shlex.split(words)
    ids = [parts[n + 1] for n, word in enumerate(parts[:-1]) if word in _ID]
    return tuple(parts[:1] + ids)


def _release(path: str) -> str | None:
    name = path.rpartition("/")[2]
    return name.partition("-")[2] or None


def saved(environment: str) -> dict[str, str]:
    """Variables of grubenv, which is padded with "#"."""
    lines = (line for line in environment.splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines if "=" in line)


def default(config: str, variables: dict[str, str]) -> str:
    """The entry chosen: once by grub-reboot, else by the file or what grubenv saved."""
    if variables.get("next_entry"):
        return variables["next_entry"]
    defaults = [match[2] for line in config.splitlines() if (match := _DEFAULT.match(line))]
    fixed = [word for word in defaults if "next_entry" not in word and "prev_saved" not in word]
    chosen = fixed[-1] if fixed else "0"
    return variables.get("saved_entry", "") or "0" if "saved_entry" in chosen else chosen or "0"


def choose(root: MenuEntry, chosen: str) -> MenuEntry | None:
    """The entry of an index, title, id or path of them; a submenu stands for its first entry."""
    entry: MenuEntry | None = _one(root, chosen) or root
    if entry is root:
        for word in chosen.split(">"):
            entry = _one(entry, word) if entry else None
    for _ in range(_DEPTH):
        if entry is None or entry.kernel or not entry.below:
            break
        entry = entry.below[0]
    return entry


def _one(menu: MenuEntry, word: str) -> MenuEntry | None:
    if is_digits(word):
        return menu.below[int(word)] if int(word) < len(menu.below) else None
    return next((entry for entry in menu.below if word in entry.names), None)
