"""The processes of vLLM V1, as far as they die: the API server's child EngineCore, and its worker.

Neither does anything. A core that loses its worker ends, as does one that loses its API server; an
API server that loses its core ends with exit code 0 (vLLM's CPU build 0.32.0, seen 2026-11-22).
"""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

CORE, WORKER = "VLLM::EngineCor", "VLLM::Worker_TP"
"""As the kernel shows them, with 15 letters."""


def start() -> int:
    """Start the core; a descriptor that is readable once it has ended. Before any thread."""
    ours, theirs = os.pipe()
    core = os.fork()
    if not core:
        os.close(theirs)
        _core(ours)
    os.close(ours)
    return os.pidfd_open(core)


def _core(parent: int) -> None:
    """Until its worker or its parent has ended; what is read from the latter is its end."""
    _be(CORE)
    ours, theirs = os.pipe()
    worker = os.fork()
    if not worker:
        os.close(theirs)
        _be(WORKER)
        os.read(ours, 1)
        os._exit(0)
    select.select([parent, os.pidfd_open(worker)], [], [])
    os._exit(1)


def _be(name: str) -> None:
    Path("/proc/self/comm").write_text(name)
    # The API server's own: it hangs the engine, which is there.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
