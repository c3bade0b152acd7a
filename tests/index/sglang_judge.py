"""SGLang's own argument parser, without torch and without a GPU: what it says of argument lists.

Run by a Python that has the wheel and its small dependencies on its path: argument lists as JSON on
stdin, what the parser objects to (empty: nothing) as JSON on stdout. The modules that declare and
check arguments are SGLang's own; all others of its package, which need torch, are stand-ins.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import sys
import types
from collections.abc import Sequence
from typing import Any
from unittest.mock import MagicMock

# The package itself, and what makes up its parser.
REAL = (
    "sglang.srt.server_args",
    "sglang.srt.arg_groups",
    "sglang.srt.environ",
    "sglang.srt.parser",
    "sglang.srt.function_call",
    "sglang.srt.entrypoints",
)


class StandIn(importlib.abc.Loader):
    """Loads a module that has everything and does nothing."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The module."""
        made: Any = MagicMock(name=spec.name)
        made.__path__, made.__spec__, made.__name__ = [], spec, spec.name
        module: types.ModuleType = made
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing."""


class Finder(importlib.abc.MetaPathFinder):
    """Finds a stand-in for each module of SGLang that is not part of its parser."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The stand-in, or None for whoever is next."""
        real = name in ("sglang", "sglang.srt") or name.startswith(REAL)
        if not name.startswith("sglang") or real:
            return None
        return importlib.machinery.ModuleSpec(name, StandIn(), is_package=True)


def parser() -> argparse.ArgumentParser:
    """The parser that `sglang serve` makes."""
    made = argparse.ArgumentParser(prog="sglang")
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(made)
    return made


def objection(judge: argparse.ArgumentParser, words: list[str]) -> str:
    """What the parser says against a list of arguments; empty for nothing."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            judge.parse_args(words)
        except SystemExit:
            return said.getvalue().strip().splitlines()[-1]
    return ""


if __name__ == "__main__":
    sys.meta_path.insert(0, Finder())
    own = parser()
    json.dump([objection(own, words) for words in json.load(sys.stdin)], sys.stdout)
