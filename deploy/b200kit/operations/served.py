"""What a node of an inventory is to serve, read as a run reads it; nothing is connected to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib import documents
from b200kit.operations import mirror_needs, preflight
from b200kit.operations.mirror_needs import NeedsUnknown
from b200kit.quality import kept
from b200kit.quality.kept import ServedModel

_ANSWER: Any = ServedModel | str
"""What a node is to serve, or why that is not known."""


def of_node(path: Path, name: str) -> ServedModel:
    """`kept.served` of a node. Raises ValueError, in one line, where that is not known.

    In a process of its own: pyinfra's command line replaces Python's threads and sockets.
    """
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "served.json"
        words = [sys.executable, "-m", __name__, str(answer), str(path), name]
        done = subprocess.run(words, check=False, stdin=subprocess.DEVNULL)
        if not answer.is_file():
            raise ValueError(f"{path} could not be read (exit code {done.returncode})")
        found: ServedModel | str = documents.load(_ANSWER, answer)
    if isinstance(found, str):
        raise ValueError(found)
    return found


def _read(path: Path, name: str) -> ServedModel | str:
    if not path.is_file():
        return f"{path} is no file"
    try:
        host = next((host for host in mirror_needs.hosts(path) if host.name == name), None)
    except NeedsUnknown as error:
        return str(error)
    if host is None:
        return f"{path}: there is no node {name}"
    spec = preflight.parsed(host, {})
    if isinstance(spec, NodeSpec):
        return kept.served(spec)
    return f"{path}: {name}: {spec[0].key}: {spec[0].message}"


def main(argv: Sequence[str]) -> None:
    """Write what a node serves as JSON: FILE INVENTORY NODE."""
    answer, path, name = argv
    Path(answer).write_bytes(documents.to_bytes(_read(Path(path), name)))


if __name__ == "__main__":
    main(sys.argv[1:])
