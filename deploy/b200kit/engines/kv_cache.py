"""The number format of the KV cache: one setting, in each engine's own flag and word. Pure.

The setting's words are vLLM's, as the sizing has them (b200kit/sizing/memory.py). Each engine maps
those that it can keep to its own (`EngineKind.kv_words`); another one is refused, never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

from b200kit.engines.contract import EngineKind, Scalar

FORMATS = ("auto", "bfloat16", "fp8", "fp8_e5m2", "nvfp4")


def rendered(kind: EngineKind, wanted: str) -> dict[str, Scalar]:
    """The engine's flag for a format; none for "auto", nor for what it cannot keep (`refusal`)."""
    word = kind.kv_words.get(wanted)
    return {kind.kv_flag: word} if word and wanted != "auto" else {}


def stated(kind: EngineKind, flags: Mapping[str, object]) -> str:
    """The format that an engine's flags select, in the setting's words; else the flag's own."""
    word = str(flags.get(kind.kv_flag, "auto"))
    return next((ours for ours, own in kind.kv_words.items() if own == word), word)


def refusal(kind: EngineKind, wanted: str) -> str:
    """Why an engine cannot keep a format, in one line; empty when it can."""
    if wanted in kind.kv_words:
        return ""
    return f"{kind.name} cannot keep the KV cache as {wanted}; it can as {', '.join(kind.kv_words)}"
