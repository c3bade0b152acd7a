"""Names of a run's folder and of each host's file in it, of many hosts at once, of latencies."""

from __future__ import annotations

import re
from collections.abc import Iterable

from b200kit.node.lib import cpulist
from b200kit.report.document import Unmeasured, clean, read, show
from b200kit.run.places import safe_name

METRICS = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2el": "E2E"}
"""Latencies by their keys."""
_NUMBERED = re.compile(r"(.*?)([0-9]{1,4})")


def run_name(record: object) -> str:
    """Return the folder name of a run: its id, or ``run-without-id``."""
    run = read(record, "run")
    return "run-without-id" if run is None or isinstance(run, Unmeasured) else safe_name(show(run))


def host_file(name: str) -> str:
    """Return the file name of a host's JSON, compressed."""
    return f"{_stem(name)}.json.gz"


def host_page(name: str) -> str:
    """Return the file name of a host's own page."""
    return f"{_stem(name)}.html"


def _stem(name: str) -> str:
    stem = safe_name(name)
    return f"{stem}-host" if stem == "report" else stem


def hostlist(names: Iterable[str]) -> str:
    """Return names as Slurm writes them: ``n[001-004,006], login``."""
    every = [clean(name) for name in names]
    found = [match for name in every if (match := _NUMBERED.fullmatch(name))]
    padded = {(match[1], len(match[2])) for match in found if match[2].startswith("0")}
    stems: dict[tuple[str, int], list[int]] = {}
    for match in found:
        # Numbers of another width are other names: n1 is not n01.
        place = (match[1], len(match[2]))
        stems.setdefault(place if place in padded else (match[1], 0), []).append(int(match[2]))
    others = [name for name in every if not _NUMBERED.fullmatch(name)]
    return ", ".join([*(_range(*stem, numbers) for stem, numbers in stems.items()), *others])


def _range(stem: str, width: int, numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{stem}{numbers[0]:0{width}}"
    spans = cpulist.format(numbers).split(",")
    return f"{stem}[{','.join(_padded(span, width) for span in spans)}]"


def _padded(span: str, width: int) -> str:
    return "-".join(f"{int(number):0{width}}" for number in span.split("-"))
