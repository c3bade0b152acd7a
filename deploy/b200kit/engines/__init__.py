"""Serving engines, each behind one contract: what to write, what to start, how to query it.

kind = engines.get(spec.engine)
kind.config(settings), kind.argv(settings), kind.environment(settings)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from b200kit.engines import sglang, trtllm, vllm
from b200kit.engines.contract import METRICS, EngineGroup, EngineKind, Settings

KINDS: Mapping[str, EngineKind] = MappingProxyType(
    {kind.name: kind for kind in (vllm.KIND, sglang.KIND, trtllm.KIND)}
)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def get(engine: _Named) -> EngineKind:
    """The engine that an inventory names."""
    return KINDS[engine.name]


__all__ = ["KINDS", "METRICS", "EngineGroup", "EngineKind", "Settings", "get"]
