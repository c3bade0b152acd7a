"""Modules loaded when a command uses them: `b200 judge --help`, or a wrong option, needs none.

What modules of commands and reports name as a module at their top (`from b200kit.records import
examples`) waits until it is used; they take a name out of one where they need it anyway. What any
other module imports is loaded with it: the checks register themselves so.

`importlib.util.LazyLoader` loads a module that is only looked at, as `inspect` does with all.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_OURS = "b200kit."
_DEFER = ("b200kit.cli.", "b200kit.report.")


# One thread loads; another that asks for the same waits until it is whole.
_LOADING = threading.RLock()


class _DeferredModule(ModuleType):
    """A module that is loaded by the first question for what is in it."""

    def __getattr__(self, name: str) -> Any:
        loader = self.__loader__
        if isinstance(loader, _DeferredLoader) and not name.startswith("__"):
            with _LOADING:
                loader.load_waiting(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


class _DeferredLoader(SourceFileLoader):
    """Loads a module now or later; what it imports waits if it may."""

    waits = False

    def exec_module(self, module: ModuleType) -> None:
        """As the usual loader, or not yet."""
        if self.waits:
            module.__class__ = _DeferredModule
        else:
            self._load(module)

    def load_waiting(self, module: ModuleType) -> None:
        """Run a module that waits, once; again where that failed."""
        if self.waits:
            self.waits = False
            try:
                self._load(module)
            except BaseException:
                self.waits = True
                raise

    def _load(self, module: ModuleType) -> None:
        before, _DEFERRING.is_on = _DEFERRING.is_on, self.name.startswith(_DEFER)
        try:
            super().exec_module(module)
        finally:
            _DEFERRING.is_on = before


class _Deferring:
    """Finds our modules; *is_on* while one runs whose imports wait."""

    is_on = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As the usual finder finds it."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith(_OURS) else None
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        spec.loader = _DeferredLoader(spec.loader.name, spec.loader.path)
        # A package has to be whole before the modules in it.
        spec.loader.waits = self.is_on and spec.submodule_search_locations is None
        return spec


_DEFERRING = _Deferring()


@contextmanager
def modules() -> Iterator[None]:
    """While this lasts, modules are found so."""
    sys.meta_path.insert(0, _DEFERRING)
    try:
        yield
    finally:
        sys.meta_path.remove(_DEFERRING)
