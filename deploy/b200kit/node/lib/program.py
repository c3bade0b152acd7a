"""This program: where it runs from, how it starts its own commands, what it alone prints."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from b200kit.node.lib import compiled

IMPORTED = Path(__file__).parents[3]
"""What Python imports the program from: an archive on a node, or the folder of the source tree."""
LOCATION = Path(compiled.source_of(str(IMPORTED)))
"""The zipapp on a node, or the folder of the source tree."""
LAUNCH = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from b200kit.node.cli import main
sys.exit(main(sys.argv[1:]))
"""


def argv(command: str, *words: str) -> list[str]:
    """The command line of a child that runs *command*, isolated from the caller's environment.

    It leaves no compiled files where this process may leave none.
    """
    own = ["-I", "-B"] if sys.flags.dont_write_bytecode else ["-I"]
    return [sys.executable, *own, "-c", LAUNCH, str(IMPORTED), command, *words]


def identity(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced; None where it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def claim_stdout() -> int:
    """A private file descriptor for the document; from here on descriptor 1 goes nowhere.

    NVML and what it loads are C code and may write to descriptor 1 directly.
    """
    sys.stdout.flush()
    private = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return private


def emit(descriptor: int, document: object) -> None:
    """Write one compact JSON line in full to a descriptor."""
    data = (json.dumps(document, separators=(",", ":"), ensure_ascii=True) + "\n").encode()
    while data:
        data = data[os.write(descriptor, data) :]
