"""Serving engines, each behind one contract: what to write, what to start, how to query it.

kind = engines.get(spec.engine)
kind.config(settings), kind.argv(settings), kind.environment(settings)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from b200kit.engines import sglang, trtllm, vllm
from b200kit.engines.contract import METRICS, EngineKind, Group, Scalar, Settings

KINDS: Mapping[str, EngineKind] = MappingProxyType(
    {kind.name: kind for kind in (vllm.KIND, sglang.KIND, trtllm.KIND)}
)


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def flags(self) -> tuple[tuple[str, Scalar], ...]: ...


def get(engine: _Named) -> EngineKind:
    """The engine that an inventory names."""
    return KINDS[engine.name]


def flags_of(engine: _Named, model: Iterable[tuple[str, Scalar]]) -> dict[str, Scalar]:
    """The extra flags: the model's of the catalogue, which are vLLM's own, and the inventory's."""
    return (dict(model) if engine.name == vllm.KIND.name else {}) | dict(engine.flags)


__all__ = ["KINDS", "METRICS", "EngineKind", "Group", "Settings", "flags_of", "get"]
