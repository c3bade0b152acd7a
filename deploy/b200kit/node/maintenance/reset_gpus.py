"""`gpu-daemons reset|restart --act ID`: restarts the driver's daemons, a reset of all GPUs between.

The order is the one that works in production (oracle-quickstart/oci-hpc, gpu_reset.sh): stop CDI
refresh, DCGM and persistence daemon; let the display module go; no process may hold a GPU; stop the
fabric manager; `nvidia-smi -r`, which resets all of them, for NVSwitch connects them; start fabric
manager, persistence daemon, DCGM and CDI refresh; wait for the fabric.

`restart` resets no GPU, except where a fabric manager is among the daemons: GPUs that registered
with the one before have no multicast (NVLS) any more, though all their readings are good
(NVIDIA/nccl#976 and #1488, pytorch/pytorch#177472: of Hopper; B200 is inferred). So it is stopped
last, when it is known that nothing computes there; otherwise the act is refused before.

What was done is noted by the act's id in /run/b200kit, which a boot forgets: repeated, the command
goes on from there, and never resets twice. The last line is what was seen.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from b200kit.node import gate
from b200kit.node.fabric import bring_up
from b200kit.node.facts.xid import RESET_DONE
from b200kit.node.lib import durable_files, hard_timeout, timestamp
from b200kit.node.lib.hard_timeout import last_line
from b200kit.node.lib.managed_files import note
from b200kit.node.serving.gpu_holders import process
from b200kit.node.state.expectation import PATH as EXPECT

NOTES = Path("/run/b200kit")
CDI = ("nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service")
DCGM, PERSISTENCED, MANAGER = (
    f"nvidia-{name}.service" for name in ("dcgm", "persistenced", "fabricmanager")
)
STOP = (*CDI, DCGM, PERSISTENCED, MANAGER)
START = (MANAGER, PERSISTENCED, DCGM, *reversed(CDI))
DISPLAY_MODULE = "nvidia_drm"
"""It keeps the GPUs open for a display nobody has; loaded on images with a desktop's driver."""
RESET_WITHIN_S = 300.0
"""Eight B200s at once; the driver waits for each."""
SETTLE_S = 10.0
"""A daemon that was asked to stop may close its device files a moment later."""
_DEVICE = re.compile(r"/dev/nvidia([0-9]+|ctl|-uvm|-uvm-tools|-modeset|-nvswitch[0-9]+|-caps/.+)")
_MANAGERS = f" of {MANAGER}"
_ID = re.compile(r"[A-Za-z0-9._:-]{1,120}")


class ResetRefused(Exception):
    """Why it goes no further, in one line; what was stopped runs again."""


Done = subprocess.CompletedProcess[bytes]
Run = Callable[..., Done]


def execute(*argv: str, timeout: float = 120.0) -> Done:
    """One command with its output; one that takes too long ends as any that fails."""
    try:
        return hard_timeout.run(argv, timeout)
    except OSError as error:
        return subprocess.CompletedProcess(argv, 124, b"", str(error).encode())


@dataclass
class ResetRecipe:
    """One act on one node. `saved` is its note: the step it reached and the units it stopped."""

    act: str
    run: Run = execute
    notes: Path = NOTES
    proc: Path = Path("/proc")
    modules: Path = Path("/sys/module")
    kernel_log: Path = Path("/dev/kmsg")
    saved: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.saved = note(self.path) or {}

    @property
    def path(self) -> Path:
        """Where the act is noted."""
        return self.notes / f"act-{self.act}.json"

    def keep(self, step: str, **more: Any) -> None:
        """Note how far it got, before what follows is begun."""
        at = timestamp.now()
        self.saved = {**self.saved, **more, "step": step, "at": at}
        durable_files.replace(self.path, json.dumps(self.saved))

    def through(self, reset: bool, wait: Callable[[], str]) -> str:
        """All of it, from where it was left. Raises Refused."""
        if self.saved.get("step") == "done":
            return str(self.saved["output"])
        if not self.saved:
            self.keep("begun", units=[unit for unit in STOP if self._is_used(unit)])
        resets = reset or MANAGER in self.saved["units"]
        try:
            if self.saved["step"] == "begun":
                self._stop(*(unit for unit in STOP if unit != MANAGER))
                if resets:
                    self._let_go()
                    self._stop(MANAGER)
                    self._reset()
        finally:
            failed = self._start()
        if failed:
            raise ResetRefused("; ".join(failed))
        output = f"{self._told(resets)}; {wait()}"
        self.keep("done", output=output)
        return output

    def _is_used(self, unit: str) -> bool:
        """Whether a daemon is this node's: it runs, or is to run at boot."""
        requested = (["is-active", "--quiet", unit], ["is-enabled", "--quiet", unit])
        return any(self.run("systemctl", *words).returncode == 0 for words in requested)

    def _stop(self, *units: str) -> None:
        for unit in (unit for unit in units if unit in self.saved["units"]):
            done = self.run("systemctl", "stop", unit)
            if done.returncode:
                raise ResetRefused(f"{unit} does not stop: {last_line(done)}")

    def _start(self) -> list[str]:
        """In order; what those say that do not start, when the others were tried, too."""
        failed = []
        for unit in (unit for unit in START if unit in self.saved["units"]):
            self.run("systemctl", "reset-failed", unit)
            done = self.run("systemctl", "start", unit)
            failed += [f"{unit} does not start: {last_line(done)}"] if done.returncode else []
        return failed

    def _let_go(self) -> None:
        """No display module and no process on any GPU."""
        if (self.modules / DISPLAY_MODULE).exists():
            done = self.run("modprobe", "-r", DISPLAY_MODULE)
            if done.returncode:
                raise ResetRefused(
                    f"{DISPLAY_MODULE} is in use, so no GPU was reset: {last_line(done)}"
                )
        end = time.monotonic() + SETTLE_S
        while held := sorted(who for who in {*holders(self.proc)} if not who.endswith(_MANAGERS)):
            if time.monotonic() > end:
                raise ResetRefused(f"no GPU was reset, for they are in use: {'; '.join(held)}")
            time.sleep(0.2)

    def _reset(self) -> None:
        """Noted as begun first: one that was broken off is not known to have been none."""
        self.keep("resetting")
        done = self.run("nvidia-smi", "-r", timeout=RESET_WITHIN_S)
        if done.returncode:
            self.keep("begun")
            raise ResetRefused(f"nvidia-smi -r: {last_line(done)}")
        self.keep("reset")
        # Xids of before it are over (checks/gpu/xid.py). Where it cannot be written, they are not.
        with suppress(OSError), self.kernel_log.open("w", encoding="ascii") as log:
            log.write(f"{RESET_DONE}\n")

    def _told(self, reset: bool) -> str:
        daemons = f"{len(self.saved['units'])} daemons restarted"
        if not reset:
            return daemons
        known = "all GPUs reset" if self.saved["step"] == "reset" else "reset, as far as is known"
        return f"{known}, {daemons}"


def holders(proc: Path = Path("/proc")) -> Iterator[str]:
    """Every process that has one of the driver's device files open: name, PID and unit."""
    for folder in proc.glob("[0-9]*"):
        if int(folder.name) != os.getpid() and any(_DEVICE.fullmatch(at) for at in _open(folder)):
            yield process(int(folder.name))


def _open(folder: Path) -> Iterator[str]:
    """Targets of a process's descriptors; one that ends meanwhile has none."""
    try:
        for link in (folder / "fd").iterdir():
            try:
                yield os.readlink(link)
            except FileNotFoundError:
                continue
    except (FileNotFoundError, ProcessLookupError):
        return


def fabric(end: float) -> str:
    """Wait until all is reached or the clock is there; the verdict judges what was reached."""
    left = max(1.0, end - time.monotonic())
    now = bring_up.wait(gate.read_expectation(EXPECT), left)
    return "the fabric is up" if now.state is None else f"the bring-up stands at {now.name}"


def main(args: list[str]) -> int:
    """`show` prints the note of an act; 1 with one line when the recipe was refused."""
    parser = argparse.ArgumentParser(prog="gpu-daemons")
    parser.add_argument("how", choices=("reset", "restart", "show"))
    parser.add_argument("--act", required=True, help="the act's id, noted on the node")
    parser.add_argument("--deadline", type=float, default=180.0, help="seconds for all of it")
    options = parser.parse_args(args)
    if not _ID.fullmatch(options.act):
        parser.error("--act: letters, digits and ._:- only")
    recipe = ResetRecipe(options.act)
    if options.how == "show":
        print(json.dumps(recipe.saved))
        return 0
    end = time.monotonic() + options.deadline
    try:
        print(recipe.through(options.how == "reset", lambda: fabric(end)))
    except (ResetRefused, OSError) as error:
        print(f"gpu-daemons: {error}", file=sys.stderr)
        return 1
    return 0
