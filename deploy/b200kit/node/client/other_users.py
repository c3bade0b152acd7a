"""What others were served while a node was measured may have made the figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def served_meanwhile(server: Mapping[str, object]) -> str:
    """That no figure is anybody's fault, and what to do; empty when nobody else was served."""
    others = server.get("other_requests")
    if not isinstance(others, int) or not others:
        return ""
    return (
        f"not measured: {others} other requests were served meanwhile; drain the node"
        " (docs/serve.md) or measure at a quiet time"
    )
