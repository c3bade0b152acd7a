"""How large the logs are: those that logrotate turns over, and the journal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from b200kit.node.lib.readings import attempt

ROOT = Path("/")
JOURNAL = "var/log/journal"


def logs(patterns: Iterable[str]) -> dict[str, Any]:
    """Bytes of each file that fits a pattern, and of the whole journal (0 without one)."""
    return {
        "files": attempt(lambda: {f"/{p.relative_to(ROOT)}": size(p) for p in found(patterns)}),
        "journal_bytes": attempt(journal_bytes),
    }


def found(patterns: Iterable[str]) -> list[Path]:
    """The files there are, each once."""
    return sorted({p for pattern in patterns for p in ROOT.glob(pattern.lstrip("/"))})


def size(path: Path) -> int:
    """Bytes of a file; 0 for one that logrotate moved away meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def journal_bytes() -> int:
    """Bytes on disk: journald makes files larger than what it wrote to them."""
    files = (ROOT / JOURNAL).glob("*/*.journal*")
    return sum(path.stat().st_blocks * 512 for path in files)
