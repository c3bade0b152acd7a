"""What this boot's log says of the driver's module: the lines that may show why it is not loaded.

The kernel's own lines, and those of modprobe and systemd, who get the error number.
"""

from __future__ import annotations

import sys

from b200kit.node.facts import xid
from b200kit.node.lib.readings import command
from b200kit.node.packages import module_log

_MOST = 40


def lines() -> list[str]:
    """The relevant lines of the journal; of the kernel's buffer where there is no journal."""
    try:
        output = command(["journalctl", "-b", "-o", "cat", "--no-pager"]).splitlines()
    except OSError:
        output = [str(entry) for entry in xid.kernel_log()]
    return module_log.relevant(output)[-_MOST:]


def main(args: list[str]) -> int:
    """Print the lines; 0 also when there is none, 1 when no log can be read."""
    del args
    try:
        for line in lines():
            print(line)
    except OSError as error:
        print(f"b200kit: the log cannot be read: {error}", file=sys.stderr)
        return 1
    return 0
