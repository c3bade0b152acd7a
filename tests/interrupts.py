"""Ctrl-C for the processes that tests begin, also where it is ignored by whoever runs the tests.

A shell lets what it runs in the background ignore it, and children inherit that.
"""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """Let a process that is about to begin end by Ctrl-C: a `preexec_fn` of subprocess.Popen."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
