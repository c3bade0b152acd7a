"""SGLang's own argument parser and its check of layouts, without torch and without a GPU.

Run by a Python that has the wheel and its small dependencies on its path: argument lists as JSON on
stdin; for each, as JSON on stdout, what SGLang objects to (empty: nothing) and the tokens a step of
one rank. The modules that declare and check arguments are SGLang's own; all others of its package,
which need torch, are stand-ins.
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
    "sglang.srt.runtime_context",
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


def judged(judge: argparse.ArgumentParser, words: list[str]) -> tuple[str, int]:
    """What SGLang says against a list of arguments, and a rank's tokens a step."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            return "", tokens(judge.parse_args(words))
        except SystemExit:
            return said.getvalue().strip().splitlines()[-1], 0
        except (AssertionError, ValueError) as refused:
            return f"error: {refused}", 0


def tokens(parsed: argparse.Namespace) -> int:
    """Tokens a step of one rank, after SGLang's checks of parallelism. Raises what they raise."""
    hook = importlib.import_module("sglang.srt.arg_groups.parallel_hook")
    given = importlib.import_module("sglang.srt.server_args").ServerArgs.from_cli_args(parsed)
    # Resolved before these checks from the GPU, which is not there: no graph for prefills.
    phase = types.SimpleNamespace(backend="disabled", max_bs=None, bs=None)
    given.cuda_graph_config = types.SimpleNamespace(prefill=phase, decode=phase)
    hook.handle_deprecated_dp_attention(given)
    hook.handle_context_parallelism(given)
    hook.handle_data_parallelism(given)
    return int(hook.resolved_view(given).chunked_prefill_size)


if __name__ == "__main__":
    sys.meta_path.insert(0, Finder())
    own = parser()
    answers = [judged(own, words) for words in json.load(sys.stdin)]
    sys.stdout.write(f"\n{json.dumps(answers)}\n")
