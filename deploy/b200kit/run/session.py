"""This process's run: one a process, begun on first import by an inventory or an entry file."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from b200kit.node.lib import timestamp
from b200kit.run.document import ControllerUse, RunHead
from b200kit.run.node import Node

ENTRIES = (
    "ready.py", "b200.py", "check.py", "smoke.py", "tune.py", "find_gpu.py", "reprovision.py",
    "remove.py", "burnin.py",
)  # fmt: skip


def entry() -> str:
    """Name of our entry file on pyinfra's command line, or "" when pyinfra runs something else."""
    named = [Path(argument).name for argument in sys.argv[1:]]
    return next((name for name in named if name in ENTRIES), "")


@dataclass
class Session:
    """This process's run of one entry file."""

    entry: str
    id: str = field(default_factory=lambda: f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}")
    started_at: str = field(default_factory=timestamp.now)
    nodes: dict[str, Node] = field(default_factory=dict)
    # All nodes of the inventory, those outside this run's limit included.
    inventory: tuple[str, ...] = ()
    # The folder of the inventory.
    site: str = ""
    # Its nodes are simulated, as their inventory says.
    simulated: bool = False
    began: bool = False
    # A person pressed Ctrl-C.
    interrupted: bool = False
    cpu_at_start: float = field(default_factory=time.process_time)
    clock_at_start: float = field(default_factory=time.monotonic)

    @property
    def changes_nodes(self) -> bool:
        """Whether this entry changes nodes, and so must hold their locks."""
        return self.entry not in ("check.py", "ready.py")

    @property
    def reprovisions(self) -> bool:
        """Whether this entry mends failed nodes, those that do not answer included."""
        return self.entry == "reprovision.py"

    def head(self) -> RunHead:
        """The run document without its hosts."""
        return RunHead(
            run=self.id,
            entry=self.entry,
            argv=(os.path.basename(sys.argv[0]), *sys.argv[1:]),
            started_at=self.started_at,
            ended_at=timestamp.now(),
            controller=ControllerUse(
                wall_s=round(time.monotonic() - self.clock_at_start, 3),
                cpu_s=round(time.process_time() - self.cpu_at_start, 3),
                commands=sum(n.remote.commands for n in self.nodes.values() if n.remote),
            ),
            simulated=self.simulated or any(n.one_process for n in self.nodes.values()),
        )


RUN = Session(entry=entry())
