"""What is on a node, by kind, so that two moments can be compared."""

from __future__ import annotations

import re

from b200kit.catalog import load
from tests.e2e.driving import on

_SYSCTLS = " ".join(
    f"/proc/sys/{key.replace('.', '/')}"
    for setting in load.load().settings.values()
    if (key := setting.means.get("sysctl"))
)
_PATHS = "/etc /home /opt /root /srv /usr /var"
#: Kind to the command that lists it. Paths: those that are no package's.
_KINDS = {
    "path": f"find {_PATHS} -xdev -not -type s | sort > /run/there; "
    "cat /var/lib/dpkg/info/*.list | sort -u | comm -23 /run/there -",
    "content": "find /etc -xdev -type f -exec sha256sum {} +",
    "package": "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' | grep -v '^un'",
    "hold": "apt-mark showhold",
    "unit": "systemctl list-unit-files --plain --no-legend | awk '{print $1, $2}'",
    "user": "cut -d: -f1 /etc/passwd",
    "group": "cut -d: -f1 /etc/group",
    # Of a choice in brackets what is chosen: the lab's file has it alone once it was written.
    "setting": f"grep -H . {_SYSCTLS} /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null | "
    r"sed 's/:.*\[\(.*\)\].*/:\1/'",
}


def state(name: str) -> dict[str, set[str]]:
    """Lines by kind."""
    return {kind: {*on(name, script).splitlines()} for kind, script in _KINDS.items()}


def differences(
    before: dict[str, set[str]], after: dict[str, set[str]], allowed: dict[str, str]
) -> list[str]:
    """What came and what went, "+ kind line" and "- kind line", but for patterns with a reason."""
    lines = [
        f"{mark} {kind} {line}"
        for kind in _KINDS
        for mark, lines in (("+", after[kind] - before[kind]), ("-", before[kind] - after[kind]))
        for line in sorted(lines)
    ]
    return [line for line in lines if not any(re.search(one, line) for one in allowed)]
