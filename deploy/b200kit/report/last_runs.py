"""What the runs of a site judged of its nodes: refused by one, a node is so until a later one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from b200kit.node.checks.bare import BARE
from b200kit.report.content.now.node import Refused
from b200kit.report.document import mapping, read, show
from b200kit.report.files import stored

_REFUSED = {"red", "unfit"}
_JUDGED = {*_REFUSED, "live", "fit", "removed", "rolled back", "quarantined", BARE}
"""Outcomes that say what a node is; the others, such as unreachable, leave what was known."""
_Found = dict[str, Refused | None]


class LastRuns:
    """Reads the summary of each run once, the newest first, until all nodes are found."""

    def __init__(self, reports: Path) -> None:
        self._reports = reports
        self._read: dict[Path, _Found] = {}

    def refused(self, names: Iterable[str]) -> dict[str, Refused]:
        """Those of these nodes that the last run that judged them refused, or cannot be read of."""
        left, found = {*names}, dict[str, Refused]()
        for path in sorted(self._reports.glob("*/summary.json"), reverse=True):
            if not left:
                break
            if path not in self._read:
                self._read[path] = _judged(path, left)
            known = self._read[path]
            found |= {name: one for name in left & known.keys() if (one := known[name])}
            left -= known.keys()
        return found


def _judged(path: Path, names: Iterable[str]) -> _Found:
    """What one run says of each node that it judged; of a damaged summary, of all."""
    try:
        summary = stored(path)
    except (OSError, ValueError) as error:
        why = Refused("unknown", f"what run {path.parent.name} judged cannot be read: {error}")
        return dict.fromkeys(names, why)
    at, hosts = read(summary, "ended_at"), mapping(read(summary, "hosts"))
    return {
        name: Refused(word, f"run {path.parent.name}: {show(read(host, 'cause'))}",
                      show(read(host, "action"), absent=""), show(at, absent=""))
        if (word := str(read(host, "outcome"))) in _REFUSED else None
        for name, host in hosts.items() if read(host, "outcome") in _JUDGED
    }  # fmt: skip
