"""`gpu-free`: no process holds the GPUs of a replica; before its start, and after its stop.

After a start that timed out vLLM's workers were seen to live on with the GPU's memory
(vllm-project/vllm#32116, #25850), some in the kernel where no signal reaches them (#25127). The
replica would come back to "free memory is less than desired", over and over. So the unit asks the
driver, by UUID and never by index, waits a while, and says who it is.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from b200kit.node.lib import documents, hard_timeout, program
from b200kit.node.lib.documents import Malformed
from b200kit.node.state.serving import Serving

HELD, UNKNOWN = 1, 2
"""Exit status: a process holds a GPU; who holds them could not be found out."""
ANSWER_WITHIN_S = 10.0
PAUSE_S = 0.5


@dataclass(frozen=True)
class GpuHolder:
    """A GPU and the process that computes on it, as a person reads them."""

    gpu: str
    process: str


Answer = list[GpuHolder] | str
Ask = Callable[[Sequence[str]], Answer]


def main(args: list[str]) -> int:
    """Wait until the replica's GPUs are free: 0 they are, 1 they are held, 2 nobody can say."""
    parser = argparse.ArgumentParser(prog="gpu-free")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--replica", type=int, required=True)
    parser.add_argument("--deadline", type=float, default=30.0, help="seconds to wait")
    options = parser.parse_args(args)
    try:
        replicas = documents.load(Serving, options.config).replicas
        uuids = next(one.uuids for one in replicas if one.index == options.replica)
    except (OSError, Malformed, StopIteration) as error:
        why = str(error) or f"{options.config} has no replica {options.replica}"
        print(f"gpu-free: which GPUs is unknown: {why}", file=sys.stderr)
        return UNKNOWN
    return wait(uuids, 0.0 if was_not_started(os.environ) else options.deadline, ask_reader)


def was_not_started(environment: Mapping[str, str]) -> bool:
    """Whether systemd asks after a start that was refused before its engine began: none can end.

    An ExecStopPost has SERVICE_RESULT, the EXIT_CODE of a main process that ended, and the MAINPID
    of one that no signal ends (systemd.exec(5); service_spawn in systemd 252).
    """
    return "SERVICE_RESULT" in environment and not environment.keys() & {"EXIT_CODE", "MAINPID"}


def wait(uuids: Sequence[str], deadline_s: float, ask: Ask) -> int:
    """Ask until no GPU is held or the time is up; prints one line unless they are free."""
    began = time.monotonic()
    while uuids:
        answer = ask(uuids)
        if isinstance(answer, str):
            # Nothing that is waited for: a driver that does not answer now is a fault of its own.
            print(f"gpu-free: nobody knows whether the GPUs are free: {answer}", file=sys.stderr)
            return UNKNOWN
        if not answer:
            return 0
        if time.monotonic() - began >= deadline_s:
            print(describe(answer, deadline_s), file=sys.stderr)
            return HELD
        time.sleep(min(PAUSE_S, deadline_s))
    return 0


def describe(held: Sequence[GpuHolder], waited_s: float) -> str:
    """Who holds what, and what to do, on one line."""
    who = "; ".join(f"{one.gpu} by {one.process}" for one in held)
    return (
        f"gpu-free: still held after {waited_s:g} s: {who}. End these processes; "
        "what no signal ends needs a reset of the GPU or a reboot"
    )


def ask_reader(uuids: Sequence[str]) -> Answer:
    """Ask in a child, which may hang in the driver without hanging us."""
    try:
        done = hard_timeout.run(program.argv("_gpu-holders", *uuids), ANSWER_WITHIN_S)
    except TimeoutError:
        return f"NVML did not answer within {ANSWER_WITHIN_S:g} s"
    try:
        document = documents.parse(done.stdout)
        if isinstance(document, str):
            return document
        return [GpuHolder(entry["gpu"], entry["process"]) for entry in document]
    except (ValueError, TypeError, KeyError):
        return f"the NVML reader failed: {hard_timeout.last_line(done)}"
