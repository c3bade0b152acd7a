"""Whether a setting is in force: what was asked against what a NodeState shows. Pure.

An entry is one of an expectation's section `settings` (b200kit/node/host/settings_table.py). The
same comparison plans the changes, proves that they took, and judges the node at every boot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from b200kit.node.lib.readings import is_digits
from b200kit.node.state.expectation import Unexpected
from b200kit.node.state.view import StateView, Unread, View

VENDORS = {"intel": "GenuineIntel", "amd": "AuthenticAMD"}
# The kernel adds up what every "pci=" says, in one list with commas or in several words.
_ADDS_UP = "pci"
_UNLIMITED = ("unlimited", "infinity", "-1")
_FLAGS = {"Y": "1", "N": "0"}


class SettingState(Enum):
    """How a setting stands on a node."""

    RIGHT = "in force"
    WRONG = "not in force"
    UNREAD = "not read"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Effect:
    """A setting on a node: *text* is what was read, as a clause after the setting's name."""

    name: str
    standing: SettingState
    text: str
    read: str
    desired: str

    @property
    def wrong(self) -> bool:
        """Whether something must be done: what was not read may be anything."""
        return self.standing in (SettingState.WRONG, SettingState.UNREAD)


def effects(settings: View, state: StateView) -> Iterator[Effect]:
    """Every setting of an expectation, in its order."""
    for name in settings.names():
        yield effect(name, settings.at(name), state)


def effect(name: str, entry: View, state: StateView) -> Effect:
    """One setting."""
    desired = str(entry.reading("desired"))
    try:
        return _effect(name, desired, entry, state)
    except Unexpected:
        raise
    except Unread as error:
        text = f"could not be read: {error.reason}"
        return Effect(name, SettingState.UNREAD, text, error.reason, desired)


def _effect(name: str, desired: str, entry: View, state: StateView) -> Effect:
    if not applicable(str(entry.reading("applies")), state):
        return Effect(name, SettingState.NOT_APPLICABLE, "is not applicable here", "", desired)
    path = tuple(str(key) for key in entry.known(list, "reading") or [])
    if path == ("host", "cmdline"):
        return _words(name, desired, entry, state)
    if not path:
        raise Unread(name, "the setting names no reading")
    observed = state.raw(*path)
    if observed is None and entry.known(bool, "may_be_absent"):
        text = "is nothing this kernel has"
        return Effect(name, SettingState.NOT_APPLICABLE, text, "none", desired)
    return _compared(name, desired, path[-1], observed, bool(entry.known(bool, "floor")))


def _compared(name: str, desired: str, key: str, observed: object, floor: bool) -> Effect:
    if key == "governors" and isinstance(observed, Mapping):
        right, read = (
            set(observed) == {desired},
            ", ".join(f"{n} CPUs {w}" for w, n in observed.items()),
        )
    elif key == "swaps" and isinstance(observed, list):
        right, read = (desired == "on") is bool(observed), f"on ({', '.join(map(str, observed))})"
        read = read if observed else "off"
    else:
        read = "not there" if observed is None else plain(observed)
        read = "unlimited" if desired == "unlimited" and read in _UNLIMITED else read
        right = read == desired or (floor and is_more(read, desired))
    where = f" ({key})" if "." in key else ""
    text = f"is {read}" + ("" if right else f", not {desired}{where}")
    standing = SettingState.RIGHT if right else SettingState.WRONG
    return Effect(name, standing, text, f"{key} = {read}", desired)


def plain(value: object) -> str:
    """A reading as text in one spelling: blanks are one space, a module's Y is 1."""
    words = " ".join(str(value).split())
    return _FLAGS.get(words, words)


def is_more(read: object, desired: object) -> bool:
    """Whether a reading is above a floor; one that is no amount is not."""
    return _amount(read) > _amount(desired)


def _amount(value: object) -> float:
    words = str(value)
    number = float(words) if is_digits(words) else math.nan
    return math.inf if words in _UNLIMITED else number


def _words(name: str, desired: str, entry: View, state: StateView) -> Effect:
    """A setting that is words of the kernel command line."""
    by_cpu = entry.known(dict, "words") or {}
    if not all(isinstance(text, str) for text in by_cpu.values()):
        raise Unexpected(f"settings: {name}", "its words must be texts")
    cmdline, words = state.text("host", "cmdline"), words_for(by_cpu, state)
    fault = missing(words, cmdline) or contradiction(words, cmdline)
    if fault:
        text = f"is not in force: the kernel command line {fault}"
        return Effect(name, SettingState.WRONG, text, fault, " ".join(words))
    if others := _without_effect(entry, state):
        text = f"is not in force, though the kernel command line asks for it: {others}"
        return Effect(name, SettingState.WRONG, text, others, " ".join(words))
    return Effect(name, SettingState.RIGHT, f"is {desired}", " ".join(words), " ".join(words))


def _without_effect(entry: View, state: StateView) -> str:
    """What the parts show that do not have what the words ask for; nothing where all have it."""
    if entry.known(dict, "effect") is None:
        return ""
    path, key = entry.get(list, "effect", "of"), entry.text("effect", "key")
    parts = state.items(*path)
    read = Counter(None if part.is_null(key) else part.text(key) for part in parts)
    others = {
        value: n for value, n in read.items() if value not in entry.get(list, "effect", "good")
    }
    shown = ", ".join(f"{value} on {n} of {read.total()}" for value, n in others.items())
    return f"{key} of {'.'.join(path)} is {shown}" if others else ""


def words_for(by_cpu: Mapping[str, str], state: StateView) -> list[str]:
    """The words for this node's CPU; raises Unread where they depend on one that is not known."""
    kinds = [kind for kind in by_cpu if kind == "all" or applicable(kind, state)]
    return [word for kind in kinds for word in by_cpu[kind].split()]


def missing(words: list[str], cmdline: str) -> str:
    """`does not have x=1`, or nothing when every word is there."""
    there = {part for word in cmdline.split() for part in _parts(word)}
    missing = [word for word in words if not set(_parts(word)) <= there]
    return f"does not have {' '.join(missing)}" if missing else ""


def contradiction(words: list[str], cmdline: str) -> str:
    """`also has x=2`, or nothing when no word says otherwise."""
    desired = [part for word in words for part in _parts(word) if "=" in part]
    keys = {part.rpartition("=")[0] for part in desired}
    there = [part for word in cmdline.split() for part in _parts(word)]
    others = [part for part in there if part.rpartition("=")[0] in keys and part not in desired]
    return f"also has {' '.join(others)}" if others else ""


def _parts(word: str) -> list[str]:
    """A word as settings of their own: "pci=noaer,realloc" is pci=noaer and pci=realloc=on."""
    key, equals, value = word.partition("=")
    if key != _ADDS_UP or not equals:
        return [word]
    parts = [part if "=" in part else f"{part}=on" for part in value.split(",") if part]
    return [f"{key}={part}" for part in parts]


def applicable(condition: str, state: StateView) -> bool:
    """Whether a setting means anything on this node; raises Unread where nobody can tell."""
    if condition == "always":
        return True
    if condition in VENDORS:
        return state.raw("cpus", "vendor") == VENDORS[condition]
    if condition == "cpufreq":
        return bool(state.get(dict, "kernel", "governors"))
    if condition == "limits":
        return state.flag("kernel", "raises_limits")
    if condition == "acs":
        # A bridge that cannot be read may have it.
        return any(not bridge.is_null("acs") for bridge in _bridges(state.items("pci", "gpus")))
    raise Unread(condition, f"nobody knows when {condition!r} is")


def redirects(state: StateView) -> bool:
    """Whether a bridge above a GPU is known to send peers through the root."""
    return any(bridge.known(bool, "acs") for bridge in _bridges(state.known_items("pci", "gpus")))


def _bridges(gpus: list[View]) -> list[View]:
    """Those above the GPUs; none where they were not read."""
    return [bridge for gpu in gpus for bridge in gpu.known_items("bridges")]
