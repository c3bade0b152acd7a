"""The observation by a process that stays: what cannot have changed is not read again.

What every look reads anew: NVML, PCI, the kernel's settings, sockets, clocks. What is kept for
KEPT_S at most: whatever a program must be started for, or hundreds of files be read, and no request
in flight depends on (packages, kernels, CPUs, container runtimes, firewall). Units, the kernel's
log and notes are read again once something says that they changed. `fresh` keeps nothing: asked
for wherever the look before found something, so that no fault counts twice by one reading.

NVML is opened and closed by each look, in this process: what enumerates the GPUs is what a new
process would see, and no device file is held between looks, which would keep a GPU from its reset.
A call that does not return is a thread that is left behind: then `stuck`, and the process is spent.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.facts import kernel, observe, pci, processes, system, systemd_bus, xid
from b200kit.node.facts.nvml.worker import Collection
from b200kit.node.lib import managed_files, timestamp
from b200kit.node.lib.kept import KeptReading, changes
from b200kit.node.lib.readings import attempt
from b200kit.node.state.plausible import plausible
from b200kit.node.state.view import SCHEMA

RARELY = (
    *("cpus", "numa", "packages", "dpkg", "driver_module", "boot", "readiness", "containers"),
    *("firewall", "storage", "weights", "logs", "certificates", "engine_probes"),
)
"""Parts of the observation that are kept for KEPT_S (lib/kept.py)."""
_KMSG = "/dev/kmsg"


class KernelNews:
    """Counts messages of the kernel since this process began, by its own descriptor."""

    def __init__(self, path: str = _KMSG) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._count = 0

    def count(self) -> int:
        """How many came until now and until the call before: the journal has those a moment later.

        Raises OSError where the kernel's log cannot be opened, or where a file stands in for it.
        """
        if os.environ.get(xid.OVERRIDE):
            raise OSError(f"{xid.OVERRIDE} is set")
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        before, more = self._count, sum(1 for _ in xid.chunks(self._descriptor))
        self._count += more
        return self._count if more else -before


class Resident:
    """Reads one node again and again. *ask*: as of `observe`; *leave_out*: keys of a GPU.

    stuck: a call of NVML did not return.
    """

    def __init__(
        self, ask: Mapping[str, Any], nvml_timeout: float, leave_out: tuple[str, ...] = ()
    ) -> None:
        self.ask, self.nvml_timeout, self.leave_out = dict(ask), nvml_timeout, leave_out
        self.stuck = False
        self._tool = observe.tool()
        self._bus, self._slow = pci.Bus(), KeptReading(kernel.slow)
        self._log = KeptReading(partial(attempt, xid.kernel_log), KernelNews().count)
        names = observe.units(ask)
        self._units = KeptReading(partial(system.units, names), partial(systemd_bus.states, names))
        rare = {key: read for key, read in observe.parts(self.ask).items() if key in RARELY}
        self._rare = {
            key: KeptReading(partial(observe.guarded, read)) for key, read in rare.items()
        }
        self._notes: dict[Path, KeptReading] = {}

    def observe(self, fresh: bool = False) -> dict[str, Any]:
        """The whole NodeState, as `observe` gives it. Takes NVML's time-out at most, or hangs."""
        started = time.monotonic()
        collection = Collection(self.leave_out)
        nvml = threading.Thread(target=collection.run_and_close, daemon=True)
        nvml.start()
        log = self._log.get(fresh)
        instead: dict[str, Callable[[], Any]] = {
            "pci": lambda: {"gpus": attempt(self._bus.gpus), "nics": attempt(self._bus.nics)},
            "kernel": lambda: kernel.kernel(self.ask, self._slow.get(fresh)),
            "units": lambda: self._units.get(fresh),
            "xids": lambda: xid.found(xid.XID, lambda: log),
            "sxids": lambda: xid.found(xid.SXID, lambda: log),
            "notes": lambda: managed_files.notes(read=self._note),
            **{key: partial(kept.get, fresh) for key, kept in self._rare.items()},
        }
        parts = {**observe.parts(self.ask), **instead}
        document = {key: observe.guarded(read) for key, read in parts.items()}
        placed = self.ask.get("placement", [])
        document["processes"] = attempt(lambda: processes.processes(document["units"], placed))
        nvml.join(max(0.0, started + self.nvml_timeout - time.monotonic()))
        self.stuck = nvml.is_alive()
        document |= collection.document(self.nvml_timeout)
        took_s = round(time.monotonic() - started, 3)
        head = {"schema": SCHEMA, "taken_at": timestamp.now(), "took_s": took_s}
        return plausible({**head, "tool": self._tool, **document})

    def _note(self, path: Path) -> Any:
        if path not in self._notes:
            read = partial(managed_files.note, path)
            self._notes[path] = KeptReading(read, partial(changes, [path]))
        return self._notes[path].get()
