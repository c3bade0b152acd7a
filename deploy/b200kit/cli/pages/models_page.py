"""docs/reference/models.md: models, goals, KV cache formats and engine versions that are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from b200kit.catalog import engines, load, shipped
from b200kit.cli.pages.markdown import table
from b200kit.site.plan import narrow
from b200kit.sizing.goals import GOALS
from b200kit.sizing.kv_cache_formats import KV_FORMATS

_HEAD = """\
# Models and engines

Made by `python -m b200kit.cli.reference_pages all`; do not edit.

How they are used: [Layout](../layout.md).

## Models

What `compare first` names is in fewer bits than the model was published in: a node serves it once
its answers were [compared](../layout.md#quantised-models), or the check is waived.

"""
_MODELS = ("model", "weights", "compare first", "source", "revision", "flags")
_GOALS = """
## Goals

`weights a GPU` is how many GB of weights each GPU must keep for TP to grow, `doublings` how far TP
may grow beyond what memory requires.

"""
_LEVERS = """
## Engine profiles

What an engine on GPUs is given beyond sizes, in its own words; `engine.flags` stand above it. A
condition that is empty always holds; `DP` is attention by data parallelism. None was measured by
this project.

"""
_CONTEXTS = """
Tokens of prompt and answer where `max_model_len` is not given, by family (others: 4096):
"""
_FORMATS = """
## KV cache formats by attention backend

Of vLLM 0.33.0 (`supported_kv_cache_dtypes` in its wheel, quoted). Other backends are not judged.

"""
_ENGINES = """
## Engine versions with a list of flags

"""
_ADVISORIES = """
## Advisories

The highest `fixed` of an engine is the lowest version that is served.

"""


def models_markdown() -> str:
    """The whole page."""
    parts = [
        _HEAD + table(_MODELS, _models()),
        _GOALS
        + table(
            ("goal", "sequences", "tokens a step", "weights a GPU", "doublings", "source"), _goals()
        ),
        _LEVERS + table(("engine", "goals", "models", "DP", "flags", "kind", "source"), _levers()),
        _CONTEXTS + _contexts(),
        _FORMATS + table(("backend", "formats"), _formats()),
        _ENGINES + table(("engine", "version", "flags", "variables"), _engines()),
        _ADVISORIES + table(("engine", "id", "fixed", "what", "source"), _advisories()),
    ]
    return "".join(parts)


def _yaml(path: Path) -> Any:
    return shipped.read(path)


def _models() -> Iterator[tuple[str, ...]]:
    for name, entry in load.model_documents().items():
        flags = ", ".join(f"`{flag}={value}`" for flag, value in entry.get("flags", {}).items())
        revision = (entry.get("revision") or "")[:12]
        fewer = narrow(load.load().models[name])
        yield f"`{name}`", str(entry["weights"]), fewer, str(entry["source"]), revision, flags


def _goals() -> Iterator[tuple[str, ...]]:
    for name, goal in GOALS.items():
        limits = str(goal.max_num_seqs), str(goal.max_num_batched_tokens)
        yield f"`{name}`", *limits, f"{goal.floor_gb:g}", str(goal.doublings), goal.sources


def _levers() -> Iterator[tuple[str, ...]]:
    for engine, known in engines.load().items():
        for lever in known.levers:
            flags = ", ".join(f"`{name}={value}`" for name, value in lever.flags.items())
            only = ", ".join((*lever.models, *lever.families, *lever.weights))
            spread = {True: "yes", False: "no", None: ""}[lever.spread]
            yield engine, ", ".join(lever.goals), only, spread, flags, lever.kind, lever.source


def _contexts() -> str:
    named = ", ".join(f"`{family}` {tokens}" for family, tokens in engines.contexts().items())
    return f"{named}.\n"


def _formats() -> Iterator[tuple[str, ...]]:
    for name, formats in KV_FORMATS.items():
        yield name, ", ".join(f"`{item}`" for item in sorted(formats))


def _engines() -> Iterator[tuple[str, ...]]:
    for path in sorted(Path(engines.__file__).parent.glob("*-*.yaml")):
        entry = _yaml(path)
        counts = str(len(entry["flags"])), str(len(entry.get("environment") or ()))
        yield entry["engine"], entry["version"], *counts


def _advisories() -> Iterator[tuple[str, ...]]:
    known = _yaml(Path(engines.__file__).parent / "advisories.yaml")
    for engine, entries in known.items():
        for entry in entries:
            yield engine, entry["id"], entry["fixed"], entry["what"], entry["source"]
