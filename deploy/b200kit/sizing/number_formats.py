"""Which GPUs compute in which number format. Data, and one rule.

NVFP4 needs the FP4 units of Blackwell: NVIDIA's model cards of NVFP4 checkpoints name Blackwell as
the only architecture (quoted). MXFP4 runs on Hopper as well (vLLM's recipe for gpt-oss, quoted).
"""

from __future__ import annotations

from collections.abc import Set

# PCI ids of the GPUs of the catalogue that have FP4 units: B200 and B300.
_WITH_FP4 = frozenset({"10de:2901", "10de:3182"})
_FP4 = "nvfp4"


def refusal(name: str, ids: Set[str]) -> str | None:
    """Why GPUs of these PCI ids cannot use a format; None where they can, or are not known."""
    without = sorted(ids - _WITH_FP4)
    if not name.startswith(_FP4) or not without:
        return None
    return f"{name.upper()} needs a Blackwell GPU; {', '.join(without)} is older"
