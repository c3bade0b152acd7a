"""`systemd-tmpfiles` of a simulated node: the real one, and then files of /sys that answer as /sys.

A write to /sys replaces all there is, and a list of words then shows the chosen one in brackets. A
plain file does neither, so each is emptied before and completed after.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .nvml import RUN
from .settings import HUGE_PAGE_WORDS

REAL = "/usr/lib/b200-lab/real/systemd-tmpfiles"
#: The files that are laid over those of /sys (boot.py); before that there are none.
HUGE_PAGES = RUN / "huge-pages/enabled"
GOVERNORS = "cpufreq/policy*/scaling_governor"


def shown(path: Path, said: str) -> str | None:
    """What /sys shows after a word was written there; None where it would refuse the word."""
    if path.name == HUGE_PAGES.name:
        words = [f"[{word}]" if word == said else word for word in HUGE_PAGE_WORDS]
        return " ".join(words) if said in HUGE_PAGE_WORDS else None
    return said if said.isalpha() else None


def complete(before: Mapping[Path, str]) -> None:
    """Have each file show what was written to it, or what it showed before."""
    for path, old in before.items():
        said = path.read_text(encoding="utf-8").strip()
        new = shown(path, said) if said else None
        path.write_text(f"{new or old.strip()}\n", encoding="utf-8")


def main() -> int:
    """Run the real program between."""
    files = [HUGE_PAGES, *RUN.glob(GOVERNORS)]
    before = {path: path.read_text(encoding="utf-8") for path in files if path.is_file()}
    for path in before:
        path.write_text("", encoding="utf-8")
    try:
        return subprocess.run([REAL, *sys.argv[1:]], check=False).returncode
    finally:
        complete(before)


if __name__ == "__main__":
    sys.exit(main())
