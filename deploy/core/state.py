"""A tolerant, typed view of a NodeState document.

The document comes from another machine, another version or a person's editor, so nothing here
raises: whatever is missing or of another type is an `Unmeasured` that says where and why. The keys
and units are described by node-state.schema.json and docs/node-state.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

SCHEMA = "b200kit/node-state/1"

T = TypeVar("T")
Key = str | int


@dataclass(frozen=True)
class Unmeasured:
    """A reading that is not there, with the reason on one line."""

    reason: str

    def __bool__(self) -> Literal[False]:
        return False


class Missing(Unmeasured):
    """The key is not in the document at all."""


class View:
    """One value of the document and its path, such as ``gpus[2].fabric``."""

    def __init__(self, value: object, path: str = "") -> None:
        self.value = value
        self.path = path

    def at(self, *keys: Key) -> View:
        """The value below; a reason travels down, so the first cause is what is told."""
        view = self
        for key in keys:
            path = (
                f"{view.path}[{key}]" if isinstance(key, int) else f"{view.path}.{key}".strip(".")
            )
            view = View(_below(view.raw(), key, path), path)
        return view

    def raw(self) -> object:
        """The value, or Unmeasured where it is an unmeasured reading."""
        value = self.value
        if isinstance(value, dict) and "unmeasured" in value:
            reason = value["unmeasured"]
            return Unmeasured(reason if isinstance(reason, str) and reason else "no reason given")
        return value

    def get(self, kind: type[T], *keys: Key) -> T | Unmeasured:
        """The value below as `kind`; true is no int, and an int will do for a float."""
        view = self.at(*keys)
        value = view.raw()
        if isinstance(value, Unmeasured):
            return value
        if kind is float and type(value) is int:
            return kind(value)  # type: ignore[call-arg]
        if type(value) is not kind:
            return Unmeasured(f"{view.path or 'document'} is {_short(value)}, no {kind.__name__}")
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
        return [view.at(index) for index in range(len(value))]

    def names(self, *keys: Key) -> list[str] | Unmeasured:
        """The keys of an object below."""
        value = self.get(dict, *keys)
        return value if isinstance(value, Unmeasured) else [k for k in value if isinstance(k, str)]


def _below(value: object, key: Key, path: str) -> object:
    """Value under a key, as Unmeasured when there is none."""
    if isinstance(value, Unmeasured):
        return value
    try:
        return value[key]  # type: ignore[index]
    except (KeyError, IndexError):
        return Missing(f"{path} is not in the document")
    except TypeError:
        return Unmeasured(f"{path} cannot be read: {_short(value)} is above it")


def _short(value: object) -> str:
    """A value for a message, cut to what fits one."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


class GpuView(View):
    """One GPU of the document."""

    def __init__(self, value: object, position: int) -> None:
        super().__init__(value, f"gpus[{position}]")
        index = self.number("index")
        self.index = position if isinstance(index, Unmeasured) else index

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
    """The whole document."""

    def gpus(self) -> list[GpuView] | Unmeasured:
        """Every GPU NVML knows; Unmeasured when NVML told nothing. The list may be empty."""
        entries = self.get(list, "gpus")
        if isinstance(entries, Unmeasured):
            return entries
        return [GpuView(entry, position) for position, entry in enumerate(entries)]

    def gpu_at(self, address: str) -> GpuView | None:
        """The GPU at a PCI address such as "0000:8f:00.0", if NVML knows it."""
        gpus = self.gpus()
        here = (g for g in gpus or [] if g.at("pci_address").raw() == address.lower())
        return next(here, None)

    def pairs(self, kind: str) -> Iterator[tuple[int, int, int | Unmeasured]]:
        """Every ordered pair of GPUs with its P2P status of a kind."""
        count = len(self.gpus() or [])
        for a in range(count):
            for b in range(count):
                if a != b:
                    yield a, b, self.number("p2p", kind, a, b)
