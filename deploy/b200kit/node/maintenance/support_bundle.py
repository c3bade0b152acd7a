"""`support-bundle`: what a failed node can show, in one archive, before anything is changed.

The last line on stdout is its description, {"schema", "bytes", "sha256", "parts"}; before it stands
the archive itself in base64, or with --to FILE it is a file of the node. `manifest.json` in it has
every part with its size and SHA-256; a part that could not be had says why in its place.

Secrets are left out: no file of secrets is a part, and every text is searched for the values of
those the node has, for keys and for tokens (b200kit/node/lib/redact.py). Prompts may stand in a
journal: who reads the archive reads them.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from b200kit.node import gate
from b200kit.node.facts import observe, system, xid
from b200kit.node.lib import hard_timeout, timestamp
from b200kit.node.lib.managed_files import STATE_DIRECTORY
from b200kit.node.lib.program import claim_stdout
from b200kit.node.lib.readings import attempt, is_unmeasured, text
from b200kit.node.lib.redact import Redactor
from b200kit.node.serving.gateway import haproxy
from b200kit.node.state.expectation import PATH as EXPECT

SCHEMA = "b200kit/evidence/1"
PART_BYTES = 4 << 20
"""Most of one part; of a log that is longer its end is kept, and the manifest says so."""
REPORT_BYTES = 12 << 20
"""Most of NVIDIA's own report, which is compressed already."""
PACKED_BYTES = 32 << 20
"""Most of an archive: its largest parts are left out until it fits, and the manifest says so."""
UNPACKED_BYTES = 128 << 20
"""More than all parts together can have; a reader unpacks no more."""
PART_WITHIN_S, REPORT_WITHIN_S = 60.0, 240.0
LINES = 60_000
"""Most lines of a journal: what is read has to fit into memory before it is cut."""
LINE = 32768
"""Characters a line of base64: a controller reads lines, and few long ones are quick."""
UNITS = (
    *("vllm@*.service", "b200-*.service", "haproxy.service", "nvidia-*.service"),
    *("docker.service", "containerd.service", "ssh.service"),
)
NOTES = (
    "smoke",
    "verdict",
    "passport",
    "bandwidth",
    "reboot",
    "watchdog-mark",
    "quarantine",
    "packages",
)
REPORTER = "nvidia-bug-report.sh"
Read = Callable[[], "str | bytes"]


def parts(reporter: str | None = None) -> dict[str, Read]:
    """File name to what goes into it, the quick and most useful ones first."""
    return {
        "state.json": state,
        "kernel.log": lambda: "\n".join(xid.kernel_log()),
        "xids.json": xids,
        "units.txt": lambda: output(["systemctl", "show", *UNITS]),
        "failed-units.txt": lambda: output(["systemctl", "--failed", "--no-pager", "--plain"]),
        "journal.log": lambda: output(_journal(0)),
        "journal-before-reboot.log": lambda: output(_journal(-1)),
        "packages.txt": system.listing,
        "apt-history.log": lambda: text("/var/log/apt/history.log"),
        "fabricmanager.log": lambda: text("/var/log/fabricmanager.log"),
        "nvidia-smi.txt": lambda: output(["nvidia-smi", "-q"]),
        "processes.txt": lambda: output(["ps", "-eo", "pid,ppid,user,stat,wchan:32,etimes,comm"]),
        "gateway.txt": gateway,
        **{f"notes/{name}.json": _note(name) for name in NOTES},
        f"{REPORTER}.log.gz": lambda: report(reporter),
    }


def state() -> str:
    """The NodeState of this moment, asked as the gate asks."""
    expectation = gate.read_expectation(EXPECT)
    return json.dumps(observe.observe(gate.ask(expectation)), indent=1)


def xids() -> str:
    """NVIDIA's messages since boot, by kind."""
    log = xid.once(xid.kernel_log)
    found = {"xids": xid.found(xid.XID, log), "sxids": xid.found(xid.SXID, log)}
    return json.dumps(found, indent=1)


def gateway() -> str:
    """The gateway's servers as it has them."""
    try:
        return haproxy.ask("show stat") + haproxy.ask("show servers state")
    except haproxy.HAProxyError as error:
        raise OSError(str(error)) from error


def _journal(boot: int) -> list[str]:
    units = [word for unit in UNITS for word in ("-u", unit)]
    shape = ["--no-pager", "-q", "-o", "short-iso-precise", "-n", str(LINES)]
    return ["journalctl", *shape, f"--boot={boot}", *units]


def _note(name: str) -> Read:
    return lambda: text(STATE_DIRECTORY / f"{name}.json")


def output(argv: list[str]) -> str:
    """What a command prints, of a long one the end; on stderr only where it failed."""
    done = hard_timeout.run(argv, PART_WITHIN_S)
    if done.returncode and not done.stdout:
        raise OSError(f"{argv[0]} exited {done.returncode}: {hard_timeout.last_line(done)}")
    return done.stdout.decode(errors="replace")


def report(program: str | None) -> bytes:
    """NVIDIA's own report where its program is, unpacked to be searched for secrets."""
    found = shutil.which(program or REPORTER)
    if not found:
        raise OSError(f"{REPORTER} is not on this node")
    with tempfile.TemporaryDirectory(prefix="b200kit-") as folder:
        # It may hang on a sick GPU; its safe mode avoids that (NVIDIA, working with Xid errors).
        words = [found, "--safe-mode", "--output-file", f"{folder}/report"]
        hard_timeout.run(words, REPORT_WITHIN_S)
        written = sorted(Path(folder).glob("report*"))
        if not written:
            raise OSError(f"{REPORTER} wrote nothing")
        content = written[0].read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def take(reads: dict[str, Read], redactor: Redactor) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Every part's content, and the manifest's entry of each."""
    contents: dict[str, bytes] = {}
    entries: dict[str, Any] = {}
    for name, read in reads.items():
        found = attempt(read)
        if is_unmeasured(found):
            entries[name] = found
            continue
        contents[name], cut = _fitted(name, found, redactor)
        entries[name] = {**described(contents[name]), **({"cut_bytes": cut} if cut else {})}
    return contents, entries


def _fitted(name: str, found: str | bytes, redactor: Redactor) -> tuple[bytes, int]:
    """A part without secrets and not too large; how much of its beginning is left out."""
    clean = redactor.content(found.encode(errors="replace") if isinstance(found, str) else found)
    packed = name.endswith(".gz")
    limit = REPORT_BYTES if packed else PART_BYTES
    cut = max(0, len(clean) - limit)
    return (gzip.compress(clean[cut:], mtime=0) if packed else clean[cut:]), cut


def described(content: bytes) -> dict[str, Any]:
    """Size and digest."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def fitted(contents: dict[str, bytes], entries: dict[str, Any], head: dict[str, Any]) -> bytes:
    """The archive, without its largest parts where it would be larger than a reader takes."""
    while True:
        packed = pack(contents, {**head, "parts": entries})
        if len(packed) <= PACKED_BYTES or not contents:
            return packed
        largest = max(contents, key=lambda name: len(contents[name]))
        size = len(contents.pop(largest))
        entries[largest] = {"unmeasured": f"left out: {size} bytes, too many for the archive"}


def pack(contents: dict[str, bytes], manifest: dict[str, Any]) -> bytes:
    """The archive, its manifest first."""
    whole = {"manifest.json": json.dumps(manifest, indent=1).encode(), **contents}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in whole.items():
            entry = tarfile.TarInfo(f"evidence/{name}")
            entry.size, entry.mode, entry.mtime = len(content), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def main(args: list[str]) -> int:
    """Collect, pack, hand over; 0 also when parts are missing, 1 when secrets cannot be known."""
    parser = argparse.ArgumentParser(prog="support-bundle")
    parser.add_argument("--why", default="", help="what for, in the manifest")
    parser.add_argument("--to", type=Path, help="a file of this node instead of stdout")
    options = parser.parse_args(args)
    out = claim_stdout()
    # Prompts may stand in the journal.
    os.umask(0o077)
    try:
        redactor = Redactor.of_this_node()
    except OSError as error:
        print(f"bundle: the secrets to leave out cannot be read: {error}", file=sys.stderr)
        return 1
    contents, entries = take(parts(), redactor)
    head = {"schema": SCHEMA, "taken_at": timestamp.now(), "node": os.uname().nodename}
    why = redactor.text(options.why)
    packed = fitted(contents, entries, {**head, "why": why, "tool": observe.tool()})
    with open(out, "w", encoding="ascii", closefd=False) as stdout:
        if options.to:
            options.to.write_bytes(packed)
        else:
            encoded = base64.b64encode(packed).decode()
            stdout.writelines(f"{encoded[i : i + LINE]}\n" for i in range(0, len(encoded), LINE))
        stdout.write(json.dumps({**head, **described(packed), "parts": entries}) + "\n")
    return 0
