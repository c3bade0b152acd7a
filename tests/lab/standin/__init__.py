"""A stand-in for vLLM: the same HTTP contract for what this toolkit uses, and no model at all.

It takes vLLM's place where the CPU build cannot be had, and is the server with known answers in
the unit tests. Its delays are set (STANDIN_* in the environment, see knobs.py), its faults are
asked for, and every answer carries "system_fingerprint": "b200kit-stand-in", so that no number of
its can pass for vLLM's. Standard library only; packed as the top-level package `b200_standin`.
"""

from __future__ import annotations

__version__ = "0.1.0"

ENGINE_VERSION = "0.0.0+stand-in"
FINGERPRINT = "b200kit-stand-in"
