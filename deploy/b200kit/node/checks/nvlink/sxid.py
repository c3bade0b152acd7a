"""SXid messages since boot: what an NVLink switch says of itself.

The switches of HGX B200 are managed over InfiniBand and log none; where the kernel does see a
switch, a fatal SXid ends its links until the reboot (fabric manager user guide, appendix D).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

SEVERITY = re.compile(r"^(?P<non>Non-?)?Fatal\b", re.IGNORECASE)
SOURCE = "fabric manager user guide, appendix D: NVSwitch SXid errors"


@check("sxid.log")
def log(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel log holds no fatal SXid; one that is not fatal is noted."""
    del expect
    entries = state.items("sxids")
    groups: dict[tuple[str, object], list[str]] = {}
    for entry in entries:
        where, code = entry.known(str, "pci_address"), entry.known(int, "code")
        key = (where or "an unknown address", "?" if code is None else code)
        groups.setdefault(key, []).append(entry.known(str, "text") or "")
    found = [sxid(where, code, texts) for (where, code), texts in groups.items()]
    yield from found
    if not any(finding.blocks for finding in found):
        yield passed(f"no fatal SXid among {len(entries)} in this boot's kernel log")


def sxid(address: str, code: object, texts: list[str]) -> Finding:
    """The finding of one code of one switch. Only what calls itself non-fatal is not fatal."""
    switch, expected = f"the NVLink switch at {address}", rule("no fatal SXid", SOURCE)
    fatal = [text for text in texts if not is_nonfatal(text)]
    read = (fatal or texts)[-1] or f"SXid {code}"
    times = f"{len(texts)} time{'s' if len(texts) > 1 else ''} since boot"
    summary = f"{switch}: SXid {code}, {times}: {read}"
    part = f"NVLink switch PCI {address}"
    if fatal:
        return failed(summary, read, expected, Action.REBOOT, part=part)
    return noted(summary, None, read, expected, part)


def is_nonfatal(text: str) -> bool:
    """Whether a message says that it is not fatal."""
    match = SEVERITY.match(text)
    return bool(match and match["non"])
