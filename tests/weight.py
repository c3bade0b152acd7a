"""What b200kit weighs, beside the last release: lines are a cost, and so is the time of tests.

`python -m tests.weight test ARGUMENT...` runs pytest and keeps what that took in `.weight.json`;
`python -m tests.weight show` prints all figures beside those of `tests/weight.yaml`; with `--held`
it ends with 1 where the CPU-minutes are over their budget, or were not measured.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
RELEASE = ROOT / "tests" / "weight.yaml"
MEASURED = ROOT / ".weight.json"
ITEMS = "B200_WEIGHT_ITEMS"
MOST = 1.5
"""Times the CPU-minutes of the last release: more fails."""
SAMPLE_S = 5.0


@dataclass(frozen=True)
class Run:
    """What one run of the tests took."""

    items: int
    cpu_minutes: float
    """User and system time of all its processes."""
    wall_minutes: float
    loop_ms: float
    """CPU of a fixed loop, timed beside it: how fast the machine was then."""
    load: float
    """The machine's load average of a minute when it ended."""
    code: int


def measure(arguments: list[str]) -> Run:
    """Run pytest; Ctrl-C is for pytest, which ends by itself."""
    signal.signal(signal.SIGINT, lambda *_: None)
    counted = MEASURED.with_suffix(".items")
    command = [sys.executable, "-m", "pytest", "-p", "tests.weight", *arguments]
    began_s, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, ITEMS: str(counted)}
    loops, process = [_loop_ms()], subprocess.Popen(command, cwd=ROOT, env=environment)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    while True:
        try:
            code = process.wait(SAMPLE_S)
            break
        except subprocess.TimeoutExpired:
            loops.append(_loop_ms())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    items = int(counted.read_text()) if counted.exists() else 0
    counted.unlink(missing_ok=True)
    wall_s = time.monotonic() - began_s
    return Run(items, cpu_s / 60, wall_s / 60, mean(loops), os.getloadavg()[0], code)


def _loop_ms() -> float:
    """CPU of a loop that is the same everywhere."""
    began_s = time.thread_time()
    total = 0
    for number in range(300_000):
        total += number % 7
    return 1000 * (time.thread_time() - began_s)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell the process that measures how many tests ran."""
    kinds = ("passed", "failed", "skipped", "xfailed", "error")
    count = sum(len(terminalreporter.getreports(kind)) for kind in kinds)
    if place := os.environ.get(ITEMS):
        Path(place).write_text(str(count))


def lines(paths: Iterable[Path]) -> int:
    """Lines of files."""
    return sum(len(path.read_bytes().splitlines()) for path in paths)


def words() -> int:
    """Words of the pages that are written by hand, but for the changelog."""
    patterns = ("*.md", "docs/*.md", "tests/**/README.md")
    pages = {path for pattern in patterns for path in ROOT.glob(pattern)}
    return sum(len(p.read_text(encoding="utf-8").split()) for p in pages if p.stem != "CHANGELOG")


def figures(run: Run | None) -> dict[str, float | None]:
    """All figures as they are now; None for what was not measured."""
    deploy = ROOT / "deploy"
    return {
        "lines of deploy/": lines(deploy.rglob("*.py")),
        "lines of the node's part": lines((deploy / "b200kit" / "node").rglob("*.py")),
        "lines of tests/": lines((ROOT / "tests").rglob("*.py")),
        "hand-written words": words(),
        "items of make test": run.items if run else None,
        "CPU-minutes of make test": round(run.cpu_minutes, 1) if run else None,
        "milliseconds of the fixed loop": round(run.loop_ms, 1) if run else None,
    }


def share_of_budget(run: Run, release: dict[str, float]) -> float:
    """CPU of a run as a share of what it may take, at the speed that the machine had then."""
    slower = run.loop_ms / release["milliseconds of the fixed loop"]
    return run.cpu_minutes / slower / (MOST * release["CPU-minutes of make test"])


def last_run() -> Run | None:
    """What `make test` took here the last time; None where it did not pass."""
    run = Run(**json.loads(MEASURED.read_text())) if MEASURED.exists() else None
    return run if run and run.code == 0 else None


def show(held: bool) -> int:
    """Print the figures; 1 where the budget is held and is not kept, or nobody measured it."""
    release, run = yaml.safe_load(RELEASE.read_text(encoding="utf-8")), last_run()
    print(f"{'':32}{'now':>10}{release['release']:>20}")
    for name, value in figures(run).items():
        now = "unmeasured" if value is None else f"{value:,}"
        print(f"{name:32}{now:>10}{release['figures'][name]:>20,}")
    if run is None:
        print("`make test` was not measured here: run it")
        return int(held)
    share = share_of_budget(run, release["figures"])
    print(f"make test: {run.wall_minutes:.1f} minutes of wall, load {run.load:.1f}, ", end="")
    print(f"{share:.0%} of its budget of CPU ({MOST} times the release's, at this machine's speed)")
    if share > 1:
        print(
            "over its budget: make the tests cheaper, or raise it in tests/weight.yaml and say why"
        )
    return int(held and share > 1)


def main(arguments: list[str]) -> int:
    """One of the two commands."""
    if arguments[:1] == ["test"]:
        run = measure(arguments[1:])
        MEASURED.write_text(json.dumps(asdict(run)))
        return run.code
    return show("--held" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
