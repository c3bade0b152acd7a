"""A tolerant, typed view of a NodeState document.

The document comes from another machine, another version or a person's editor, so nothing here
raises: whatever is missing or of another type is an `Unmeasured` that says where and why. The keys
and units are described by node-state.schema.json and docs/reference/node-state.md.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

from b200kit.node.lib import readings

SCHEMA = "b200kit/node-state/1"

T = TypeVar("T")
Key = str | int
LINK_DOWN = 0


@dataclass(frozen=True)
class Unmeasured:
    """A reading that is not there, with the reason on one line."""

    reason: str

    def __bool__(self) -> Literal[False]:
        return False

    def __str__(self) -> str:
        return f"unmeasured: {self.reason}"


class Absent(Unmeasured):
    """The document has no value there; a recorded reason is none of these."""


class Missing(Absent):
    """The key is not in the document at all."""


class View:
    """One value of the document and its path, such as ``gpus[2].fabric``."""

    def __init__(self, value: object, above: str = "", keys: tuple[Key, ...] = ()) -> None:
        self.value = value
        self._above, self._keys = above, keys

    @property
    def path(self) -> str:
        """Where it is. Written only when it is needed: a judgement makes ten thousand views."""
        return _path(self._above, self._keys)

    def at(self, *keys: Key) -> View:
        """The value below; a reason travels down, so the first cause is what is reported."""
        value: object = self.value
        for depth, key in enumerate(keys, 1):
            value = _reading(value)
            if isinstance(value, Unmeasured):
                break
            try:
                value = value[key]  # type: ignore[index]
            except (LookupError, TypeError) as error:
                path = _path(self._above, (*self._keys, *keys[:depth]))
                value = _gone(value, path, error)
                break
        return View(value, self._above, (*self._keys, *keys))

    def raw(self) -> object:
        """The value, or Unmeasured where it is an unmeasured reading."""
        return _reading(self.value)

    def get(self, kind: type[T], *keys: Key) -> T | Unmeasured:
        """The value below as `kind`; true is no int, and an int will do for a float."""
        if len(keys) == 1 and type(self.value) is dict and "unmeasured" not in self.value:
            # Most of ten thousand readings: a plain value right below.
            direct = self.value.get(keys[0])
            if type(direct) is kind and kind is not dict:
                return direct
        view = self.at(*keys)
        value = view.raw()
        if isinstance(value, Unmeasured):
            return value
        if kind is float and type(value) is int:
            return kind(value)  # type: ignore[call-arg]
        if type(value) is not kind:
            return Unmeasured(f"{view.path or 'document'} is {short(value)}, no {kind.__name__}")
        return value

    def text(self, *keys: Key) -> str | Unmeasured:
        """A string below."""
        return self.get(str, *keys)

    def number(self, *keys: Key) -> int | Unmeasured:
        """An integer below."""
        return self.get(int, *keys)

    def flag(self, *keys: Key) -> bool | Unmeasured:
        """A boolean below."""
        return self.get(bool, *keys)

    def is_null(self, *keys: Key) -> bool:
        """Whether the value is there and null, which means absent on the node."""
        return self.at(*keys).raw() is None

    def items(self, *keys: Key) -> list[View] | Unmeasured:
        """The entries of a list below."""
        view = self.at(*keys)
        value = view.get(list)
        if isinstance(value, Unmeasured):
            return value
        above, path = view._above, view._keys
        return [View(entry, above, (*path, index)) for index, entry in enumerate(value)]

    def names(self, *keys: Key) -> list[str] | Unmeasured:
        """The keys of an object below."""
        value = self.get(dict, *keys)
        return value if isinstance(value, Unmeasured) else [k for k in value if isinstance(k, str)]


def _path(above: str, keys: tuple[Key, ...]) -> str:
    """The text of a path, ``gpus[2].fabric``."""
    steps = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return (above + "".join(steps)).strip(".")


def _reading(value: object) -> object:
    """The value, or Unmeasured where it is an unmeasured reading."""
    why = readings.reason(value)
    return value if why is None else Unmeasured(why)


def _gone(above: object, path: str, error: Exception) -> Unmeasured:
    """Why there is no value at a path."""
    if isinstance(error, LookupError):
        return Missing(f"{path} is not in the document")
    return Absent(f"{path} cannot be read: {short(above)} is above it")


def short(value: object) -> str:
    """A value for a message, cut to what fits one, however deep it is."""
    text = reprlib.repr(value) if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


class GpuView(View):
    """One GPU of the document."""

    def __init__(self, value: object, position: int) -> None:
        super().__init__(value, f"gpus[{position}]")
        self.position = position

    @cached_property
    def links(self) -> list[View] | Unmeasured:
        """Its NVLinks: thirty questions of a judgement go through all of them."""
        return self.items("links")

    @cached_property
    def links_up(self) -> list[View]:
        """Those that are up; one whose state is unknown is not counted as down."""
        return [link for link in self.links or [] if link.number("state") != LINK_DOWN]

    @property
    def index(self) -> int:
        """NVML's index; the place in the list where there is none."""
        index = self.number("index")
        return self.position if isinstance(index, Unmeasured) else index

    @property
    def subject(self) -> str:
        """How findings name it: "GPU 2"."""
        return f"GPU {self.index}"

    @property
    def part(self) -> str:
        """What a person needs to find it: module, PCI address, serial number and UUID."""
        keys = (("module_id", "module"), ("pci_address", "PCI"), ("serial", "serial"), ("uuid", ""))
        known = [
            f"{label} {value}".strip()
            for key, label in keys
            if isinstance(value := self.at(key).raw(), str | int)
        ]
        return f"{self.subject} ({', '.join(known)})" if known else self.subject


class StateView(View):
    """The whole document, which stays as it is while it is looked at."""

    _gpus: list[GpuView] | Unmeasured | None = None

    def gpus(self) -> list[GpuView] | Unmeasured:
        """Every GPU NVML knows; Unmeasured when NVML gave nothing. The list may be empty."""
        if self._gpus is None:
            entries = self.get(list, "gpus")
            self._gpus = (
                entries
                if isinstance(entries, Unmeasured)
                else [GpuView(entry, position) for position, entry in enumerate(entries)]
            )
        return self._gpus

    def gpu_at(self, address: str) -> GpuView | None:
        """The GPU at a PCI address such as "0000:8f:00.0", if NVML knows it."""
        return self._by_address.get(address.lower())

    @cached_property
    def _by_address(self) -> dict[str, GpuView]:
        """Of an address that several have, the first."""
        told = [(gpu.text("pci_address"), gpu) for gpu in reversed(self.gpus() or [])]
        return {address: gpu for address, gpu in told if isinstance(address, str)}

    def pairs(self, kind: str) -> Iterator[tuple[int, int, int | Unmeasured]]:
        """Every ordered pair of GPUs with its P2P status of a kind."""
        count, rows = len(self.gpus() or []), self.at("p2p", kind)
        for a in range(count):
            for b in range(count):
                if a != b:
                    yield a, b, rows.number(a, b)
