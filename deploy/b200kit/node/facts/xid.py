"""NVIDIA's messages since boot: Xids of GPUs and SXids of NVSwitches, from the kernel log."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

from b200kit.node.lib.readings import attempt, command, text

OVERRIDE = "B200KIT_KERNEL_LOG"
"""Environment variable that names a text file to read instead of the kernel log."""
XID = re.compile(
    r"NVRM: Xid \(PCI:(?P<address>[0-9A-Fa-f:.]+)\): (?P<code>[0-9]+),?\s*(?P<text>.*)"
)
SXID = re.compile(
    r"SXid \(PCI:(?P<address>[0-9A-Fa-f:.]+)\): "
    r"(?P<code>[0-9]+)(?![0-9]|, Severity |, Data \{),?\s*(?P<text>.*)"
)
"""Lines "Severity ..." and "Data {...}" with a message's code only go into its detail (fabric
manager user guide, appendix D)."""
RESET_DONE = "b200kit: all GPUs were reset"
"""What is written to the kernel log after a reset that succeeded (node/maintenance/reset_gpus.py).
It stands in order among NVIDIA's messages, whatever clocks do, and is gone with them at a boot."""
JOURNAL_TIME = re.compile(r"^\s*([0-9]+\.[0-9]+)\s")
FIRST_RECORD = re.compile(r"[0-9]+,([0-9]+),")
"""Priority and sequence number at the start of a /dev/kmsg record; a boot's first is 0."""
RECORD_BYTES = 8192


def once(read: Callable[[], Any]) -> Callable[[], Any]:
    """A reading that several parts share: taken by the first that asks, others wait for it."""
    lock, taken = threading.Lock(), list[Any]()

    def reading() -> Any:
        with lock:
            if not taken:
                taken.append(attempt(read))
            return taken[0]

    return reading


def found(pattern: re.Pattern[str], log: Callable[[], Any]) -> Any:
    """Messages of one kind, with address, code and text; unmeasured when the log is."""
    lines = log()
    if not isinstance(lines, list):
        return lines
    reset = max((at for at, line in enumerate(lines) if RESET_DONE in line), default=-1)
    read = ((at, parse(pattern, line)) for at, line in enumerate(lines))
    more = {"before_reset": True} if pattern is XID else {}
    return [{**entry, **(more if at < reset else {})} for at, entry in read if entry]


def parse(pattern: re.Pattern[str], line: str) -> dict[str, Any] | None:
    """One line such as "... NVRM: Xid (PCI:0000:8f:00): 79, pid=1, GPU has fallen off the bus."."""
    match = pattern.search(line)
    if not match:
        return None
    time = JOURNAL_TIME.match(line)
    entry: dict[str, Any] = {"time_s": float(time.group(1))} if time else {}
    address = match["address"].lower()
    entry["pci_address"] = address if "." in address else f"{address}.0"
    return {**entry, "code": int(match["code"]), "text": match["text"].strip()}


def kernel_log() -> list[str]:
    """Lines of this boot's kernel log; raises OSError when no source can be read."""
    override = os.environ.get(OVERRIDE)
    if override:
        return text(override).splitlines()
    journal = attempt(lambda: command(["journalctl", "-k", "-b", "-q", "-o", "short-unix"], (0, 1)))
    if isinstance(journal, str) and journal.strip():
        return journal.splitlines()
    # A container's journal holds no kernel messages, and a plain user may not see them.
    return kernel_buffer()


def kernel_buffer() -> list[str]:
    """Messages of /dev/kmsg: records "6,1234,5678,-;text", their indented lines key=value pairs."""
    descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        content = b"".join(chunks(descriptor)).decode(errors="replace")
    finally:
        os.close(descriptor)
    return messages(content)


def messages(content: str) -> list[str]:
    """Texts of kernel log records; raises OSError when the log's start has been overwritten."""
    lines = [line for line in content.splitlines() if not line.startswith(" ")]
    first = FIRST_RECORD.match(lines[0]) if lines else None
    if first and int(first.group(1)) > 0:
        raise OSError(f"the first {first.group(1)} messages of this boot are no longer kept")
    return [line.split(";", 1)[-1] for line in lines]


def chunks(descriptor: int) -> Iterator[bytes]:
    """What can be read now, without waiting for more."""
    while True:
        try:
            chunk = os.read(descriptor, RECORD_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:  # a record was overwritten; the next read goes on after it
            continue
        if not chunk:
            return
        yield chunk
