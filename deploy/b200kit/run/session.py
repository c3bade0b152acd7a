"""This process's run: one a process, begun on first import by an inventory or an entry file."""

from __future__ import annotations

import sys
from pathlib import Path

from b200kit.run.node import Run

ENTRIES = ("ready.py", "b200.py", "check.py", "smoke.py", "tune.py", "rotate.py", "reprovision.py")


def entry() -> str:
    """Name of our entry file on pyinfra's command line, or "" when pyinfra runs something else."""
    named = [Path(argument).name for argument in sys.argv[1:]]
    return next((name for name in named if name in ENTRIES), "")


RUN = Run(entry=entry())
