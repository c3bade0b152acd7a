"""Units hold under the oldest systemd of a supported system, where an unknown line is ignored."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.subtests import in_subtests

ROOT = Path(__file__).parents[3]
SINCE = yaml.safe_load((ROOT / "tests/data/systemd-since.yaml").read_text(encoding="utf-8"))
NEWER = {name: version for version, names in SINCE.items() for name in names}
# podman's own units: systems with a podman that has them (4.4) have a newer systemd, too.
UNITS = sorted(
    path for path in (ROOT / "templates/systemd").glob("*.j2") if ".container" not in path.name
)


def too_new(text: str) -> dict[str, int]:
    """Directives of a unit that systemd 249 does not know, with their release; %d came with 250."""
    named = re.findall(r"^([A-Z]\w+)=", text, re.MULTILINE)
    found = {name: NEWER[name] for name in named if name in NEWER}
    return found | ({"%d": 250} if re.search(r"(?<!%)%d", text) else {})


@in_subtests("unit", UNITS, ids=lambda path: path.name)
def test_no_unit_needs_a_newer_systemd(unit: Path) -> None:
    assert too_new(unit.read_text(encoding="utf-8")) == {}


def test_line_that_an_older_systemd_ignores_is_found() -> None:
    unit = "[Service]\nType=exec\nImportCredential=key\nExecStart=/bin/cat %d/key 100%%d\n"
    assert too_new(unit) == {"ImportCredential": 254, "%d": 250}
