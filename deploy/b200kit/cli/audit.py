"""`b200 audit verify|show`: the log of every action on every node, and whether it is whole."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from b200kit.reprovision import audit, ledger

WHOLE, DAMAGED, UNREADABLE = 0, 1, 2


def main(argv: list[str]) -> int:
    """0 whole, 1 changed, cut or reordered, 2 there is none or it cannot be read."""
    options = _parser().parse_args(argv)
    folder = options.transactions or ledger.directory()
    try:
        content = (folder / ledger.AUDIT).read_bytes()
    except OSError as error:
        names = ledger.nodes(folder) if folder.is_dir() else []
        print(f"b200 audit: {folder / ledger.AUDIT}: {error.strerror}", file=sys.stderr)
        return DAMAGED if names else UNREADABLE
    return _verify(folder, content) if options.what == "verify" else _show(content, options.node)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="b200 audit", description=__doc__)
    parser.add_argument("what", choices=("verify", "show"))
    parser.add_argument("node", nargs="?", help="only this node's actions")
    parser.add_argument("--transactions", type=Path, help="directory of the transactions")
    return parser


def _verify(folder: Path, content: bytes) -> int:
    names = ledger.nodes(folder)
    known = {name: list(ledger.read(folder, name).digests) for name in names}
    wrong = audit.verify(content, known)
    for line in wrong:
        print(f"b200 audit: {line}", file=sys.stderr)
    log = audit.parse(content)
    state = f"{len(wrong)} faults" if wrong else "whole"
    print(f"{len(log.entries)} actions on {len(names)} nodes: {state}; newest {log.last[:10]}")
    return DAMAGED if wrong else WHOLE


def _show(content: bytes, node: str | None) -> int:
    for entry in audit.parse(content).entries:
        if node in (None, entry.get("node")):
            print(audit.describe(entry))
    return WHOLE
