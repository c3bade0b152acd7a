"""A typed view of a NodeState document, and the exception of a reading that is not there.

The document comes from another machine, another version or a person's editor. Asking for what is
missing, was not measured or is of another type raises `Unread`, which says where and why; the judge
turns it into an unmeasured finding, once a check or once a part. So no check has to look after what
it was not given, and none can forget to. `known` is for what may be absent: names in a message, the
second opinion of a rule. The keys and units are described by node-state.yaml and
docs/reference/node-state.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NoReturn, TypeVar

from b200kit.node.lib import readings

SCHEMA = "b200kit/node-state/1"

T = TypeVar("T")
Key = str | int
LINK_DOWN = 0


@dataclass(frozen=True)
class Unmeasured:
    """A reading that is not there, with the reason on one line: what a page or a table shows.

    In a document {"unmeasured": reason}.
    """

    unmeasured: str

    @property
    def reason(self) -> str:
        """Why."""
        return self.unmeasured

    def __bool__(self) -> Literal[False]:
        return False

    def __str__(self) -> str:
        return f"unmeasured: {self.reason}"


class Absent(Unmeasured):
    """The document has no value there; a recorded reason is none of these."""


class Missing(Absent):
    """The key is not in the document at all."""


class Unread(Exception):
    """A reading that somebody needs is not there: what it is, such as its path, and why."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}" if what else reason)
        self.what, self.reason = what, reason


class View:
    """One value of the document and its path, such as ``gpus[2].fabric``."""

    error: type[Unread] = Unread
    """What is raised where there is no value."""

    def __init__(self, value: object, above: str = "", keys: tuple[Key, ...] = ()) -> None:
        self.value = value
        self._above, self._keys = above, keys

    @property
    def path(self) -> str:
        """Where it is. Written only when it is needed: a judgement makes thousands of views."""
        return _path(self._above, self._keys)

    def at(self, *keys: Key) -> View:
        """The value below; a reason travels down, so the first cause is what is reported."""
        return self._below(self.reading(*keys), keys)

    def _below(self, value: object, keys: tuple[Key, ...]) -> View:
        view = View(value, self._above, (*self._keys, *keys))
        if self.error is not Unread:
            view.error = self.error
        return view

    def reading(self, *keys: Key) -> object:
        """The value below, or Unmeasured: for what is shown and not judged."""
        value = reading(self.value)
        for depth, key in enumerate(keys, 1):
            if isinstance(value, Unmeasured):
                return value
            try:
                value = reading(value[key])
            except (LookupError, TypeError) as error:
                return _gone(value, _path(self._above, (*self._keys, *keys[:depth])), error)
        return value

    def raw(self, *keys: Key) -> object:
        """The value below, of any type."""
        value = self.reading(*keys)
        if isinstance(value, Unmeasured):
            self._raise(keys, value.reason)
        return value

    def get(self, kind: type[T], *keys: Key) -> T:
        """The value below as `kind`; true is no int, and an int will do for a float."""
        value = self.value
        try:
            for key in keys:
                value = value[key]  # type: ignore[index]
        except (LookupError, TypeError):
            pass
        else:
            if type(value) is kind and kind is not dict:
                return value
        value = self.raw(*keys)
        if type(value) is kind:
            return value
        if kind is float and type(value) is int:
            return kind(value)  # type: ignore[call-arg]
        where = _path(self._above, (*self._keys, *keys))
        self._raise(keys, f"{where or 'document'} is {readings.short(value)}, no {kind.__name__}")

    def known(self, kind: type[T], *keys: Key) -> T | None:
        """The value below as `kind`, or None where there is none to go by."""
        try:
            return self.get(kind, *keys)
        except Unread:
            return None

    def text(self, *keys: Key) -> str:
        """A string below."""
        return self.get(str, *keys)

    def number(self, *keys: Key) -> int:
        """An integer below."""
        return self.get(int, *keys)

    def flag(self, *keys: Key) -> bool:
        """A boolean below."""
        return self.get(bool, *keys)

    def is_null(self, *keys: Key) -> bool:
        """Whether the value is there and null, which means absent on the node."""
        return self.reading(*keys) is None

    def is_missing(self, *keys: Key) -> bool:
        """Whether the document has no such key: an older one, or one that was not asked for it."""
        return isinstance(self.reading(*keys), Missing)

    def items(self, *keys: Key) -> list[View]:
        """The entries of a list below."""
        entries = self.get(list, *keys)
        return [self._below(entry, (*keys, index)) for index, entry in enumerate(entries)]

    def known_items(self, *keys: Key) -> list[View]:
        """The same, none where there is no list."""
        return self.items(*keys) if self.known(list, *keys) else []

    def names(self, *keys: Key) -> list[str]:
        """The keys of an object below."""
        return [key for key in self.get(dict, *keys) if isinstance(key, str)]

    def _raise(self, keys: tuple[Key, ...], reason: str) -> NoReturn:
        raise self.error(_path(self._above, (*self._keys, *keys)), reason)


def integers(views: Sequence[View], key: Key) -> list[int] | None:
    """The integer below a key of each of many; None where one has none, so that each is asked."""
    try:
        found: list[int] = [view.value[key] for view in views]  # type: ignore[index]
    except (LookupError, TypeError):
        return None
    return found if set(map(type, found)) <= {int} else None


def _path(above: str, keys: tuple[Key, ...]) -> str:
    """The text of a path, ``gpus[2].fabric``."""
    steps = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return (above + "".join(steps)).strip(".")


def reading(value: Any) -> Any:
    """The value, or Unmeasured where it is an unmeasured reading."""
    if type(value) is not dict or "unmeasured" not in value:
        return value  # nearly all of ten thousand
    return Unmeasured(readings.reason(value) or "")


def _gone(above: object, path: str, error: Exception) -> Unmeasured:
    """Why there is no value at a path."""
    if isinstance(error, LookupError):
        return Missing(f"{path} is not in the document")
    return Absent(f"{path} cannot be read: {readings.short(above)} is above it")


class GpuView(View):
    """One GPU of the document."""

    def __init__(self, value: object, position: int) -> None:
        super().__init__(value, f"gpus[{position}]")
        self.position = position

    @cached_property
    def links(self) -> list[View]:
        """Its NVLinks: thirty questions of a judgement go through all of them."""
        return self.items("links")

    @cached_property
    def links_up(self) -> list[View]:
        """Those that are up; one whose state is unknown is not counted as down."""
        return [link for link in self.links if link.known(int, "state") != LINK_DOWN]

    @cached_property
    def index(self) -> int:
        """NVML's index; the place in the list where there is none."""
        index = self.known(int, "index")
        return self.position if index is None else index

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
            if isinstance(value := self.reading(key), str | int)
        ]
        return f"{self.subject} ({', '.join(known)})" if known else self.subject


class StateView(View):
    """The whole document, which stays as it is while it is looked at."""

    @cached_property
    def gpus(self) -> list[GpuView]:
        """Every GPU NVML knows. The list may be empty."""
        return [GpuView(entry, position) for position, entry in enumerate(self.get(list, "gpus"))]

    @property
    def known_gpus(self) -> list[GpuView]:
        """The same, none where NVML gave nothing."""
        return self.gpus if self.known(list, "gpus") else []

    def gpu_at(self, address: str) -> GpuView | None:
        """The GPU at a PCI address such as "0000:8f:00.0", if NVML knows it."""
        return self._by_address.get(address.lower())

    @cached_property
    def _by_address(self) -> dict[str, GpuView]:
        """Of an address that several have, the first."""
        addresses = ((gpu.known(str, "pci_address"), gpu) for gpu in reversed(self.known_gpus))
        return {address: gpu for address, gpu in addresses if address is not None}
