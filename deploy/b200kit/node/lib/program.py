"""Where this program runs from, and how it starts one of its own commands as a child process."""

from __future__ import annotations

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
