"""What a server is asked for when it is warmed up, and which lines say that a kernel was compiled.

What a server was configured without is not asked for; whether it was is decided from its flags and
from what the inventory declares, never from an answer. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

STRUCTURED, TOOLS, LOGPROBS = "structured output", "tools", "logprobs"
FEATURES = (STRUCTURED, TOOLS, LOGPROBS)
_JIT = re.compile(
    # vLLM 0.32, utils/jit_monitor.py: Triton, CuTe and TileLang kernels compiled after its warm-up.
    r"during inference: .*causes a latency spike"
    # Triton's own line for an autotuning, which that monitor switches on.
    r"|Triton autotuning for function \S+.* finished"
)


def features(flags: Mapping[str, object], off: Collection[str]) -> list[str]:
    """What a server with these flags offers, less what the inventory declares *off*."""
    offered = {
        STRUCTURED: flags.get("grammar-backend") != "none",
        # Without a parser a tool call is text, and vLLM refuses "auto" with a 400.
        TOOLS: bool(flags.get("tool-call-parser"))
        and flags.get("enable-auto-tool-choice") is not False,
        LOGPROBS: flags.get("max-logprobs") != 0,
    }
    return [name for name in FEATURES if offered[name] and name not in off]


def jit_lines(journal: Iterable[str]) -> int:
    """How many lines of a journal say that a kernel was compiled while requests were served."""
    return sum(bool(_JIT.search(line)) for line in journal)
