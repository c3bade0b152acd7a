"""`_evidence`: what can be observed of a hung replica from outside, before it is restarted.

Every thread's kernel side (state, wait channel, system call, stack), who computes on the GPUs, the
unit, its counters and its last journal lines, a file each. A part that cannot be had says why in
its file. What Python does in its threads only the process itself knows: it does so in the
journal when it gets SIGABRT (PYTHONFAULTHANDLER), which the watchdog sends last.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from b200kit.node.client import engine_metrics
from b200kit.node.client.chat import Endpoint
from b200kit.node.facts.processes import members
from b200kit.node.lib import journal
from b200kit.node.lib.readings import attempt, command, reason, text

PROC = Path("/proc")
KEPT = 20
"""Folders of evidence that are kept; the oldest go."""
_LAST_LINES = 2000
_THREAD = ("wchan", "syscall", "stack")
_STATUS = ("Name", "State", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
_SMI = [
    "nvidia-smi",
    "--query-compute-apps=gpu_uuid,pid,process_name,used_memory",
    "--format=csv,noheader",
]


def parts(unit: str, invocation: str, group: str, url: str) -> dict[str, Callable[[], str]]:
    """File name to what goes into it; the quick and most useful ones first."""
    return {
        "threads.txt": lambda: "\n".join(threads(members(group))),
        "metrics.txt": lambda: counters(url),
        "journal.txt": lambda: "\n".join(journal.lines(invocation, _LAST_LINES)),
        "unit.txt": lambda: command(["systemctl", "show", unit]),
        "gpus.txt": lambda: command(_SMI),
    }


def threads(pids: list[int], proc: Path = PROC) -> Iterator[str]:
    """Every thread of some processes, by what the kernel shows of it."""
    for pid in pids:
        yield f"== {pid} {_of(proc / str(pid) / 'cmdline')}"
        for task in sorted((proc / str(pid)).glob("task/*"), key=lambda path: int(path.name)):
            status = attempt(lambda task=task: text(task / "status"))  # type: ignore[misc]
            lines = str(status).splitlines()
            fields = [line.replace("\t", " ") for line in lines if line.split(":")[0] in _STATUS]
            yield f"-- {task.name} {', '.join(fields) or status}"
            yield from (f"   {name}: {_of(task / name)}" for name in _THREAD)


def _of(path: Path) -> str:
    """A file of /proc on one line, or why it cannot be read."""
    found = attempt(lambda: text(path))
    message = found.replace("\0", " ") if isinstance(found, str) else str(found)
    return " | ".join(message.splitlines()).strip()


def counters(url: str) -> str:
    """The engine's counters, a line each; raises OSError when it does not answer."""
    found = asyncio.run(engine_metrics.scrape(Endpoint(url)))
    if isinstance(found, str):
        raise OSError(found)
    return "\n".join(f"{name} {value:g}" for name, value in sorted(found.items()))


def write(into: Path, name: str, read: Callable[[], str]) -> None:
    """One part, or why it could not be had."""
    found = attempt(read)
    why = reason(found)
    content = found if why is None else f"not available: {why}"
    (into / name).write_text(content + "\n", encoding="utf-8", errors="replace")


def forget(directory: Path, keep: int = KEPT) -> None:
    """Remove all but the newest folders of evidence; their names begin with the time."""
    folders = sorted(path for path in directory.glob("*-vllm*") if path.is_dir())
    for old in folders[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def main(args: list[str]) -> int:
    """Collect everything; each part is written before the next is begun."""
    parser = argparse.ArgumentParser(prog="_evidence")
    for name in ("unit", "invocation", "group", "url"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--into", type=Path, required=True)
    options = parser.parse_args(args)
    # Prompts may stand in the journal.
    os.umask(0o077)
    options.into.mkdir(parents=True, exist_ok=True)
    found = parts(options.unit, options.invocation, options.group, options.url)
    for name, read in found.items():
        write(options.into, name, read)
    forget(options.into.parent)
    return 0
