"""Swap of a simulated node: /proc/swaps as a file of its own, and the commands that write it.

The real commands would act on the machine that the node shares its kernel with.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SCENARIO = Path("/etc/b200-lab/scenario.json")
SHOWN = Path("/proc/swaps")
MASK = Path("/etc/systemd/system/swap.target")
HEAD = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def table(names: Iterable[str]) -> str:
    """The text of /proc/swaps."""
    rows = (f"{name:<40}partition\t8388604\t\t0\t\t{-2 - n}\n" for n, name in enumerate(names))
    return HEAD + "".join(rows)


def at_boot(scenario: Mapping[str, Any], mask: Path = MASK) -> str:
    """What is in use after a boot: nothing below a masked swap.target."""
    masked = mask.is_symlink() and os.readlink(mask) == "/dev/null"
    return table([] if masked else configured(scenario))


def configured(scenario: Mapping[str, Any]) -> list[str]:
    """The node's swap devices."""
    return list(scenario["kernel"].get("swaps", []))


def main() -> int:
    """`swapoff -a` and `swapon -a`; other arguments are refused."""
    name, *arguments = Path(sys.argv[1]).name, *sys.argv[2:]
    if arguments != ["-a"]:
        print(f"{name}: this simulation knows only -a", file=sys.stderr)
        return 1
    scenario = json.loads(SCENARIO.read_text(encoding="utf-8"))
    SHOWN.write_text(table(configured(scenario) if name == "swapon" else []), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
