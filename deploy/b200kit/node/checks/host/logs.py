"""Logs that grow without end fill the disk, and a full disk stops everything."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

MIB = 1 << 20
WHY = "limits of b200kit/stages/clock_and_logs.py"


@check("host.logs")
def logs_kept_small(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Journal and log files are within their limits: logrotate and journald do their work."""
    if expect.requested(dict, "logs") is None:
        yield passed("no limit of logs is asked for")
        return
    most, journal = expect.number("logs", "file_bytes"), expect.number("logs", "journal_bytes")
    found = [
        *within(files(state, most)),
        *within(journald(state, journal)),
    ]
    yield from found or [passed("the logs are within their limits", rule(f"{most} bytes", WHY))]


def files(state: StateView, most: int) -> Iterator[Finding]:
    """A finding for each file that should have been turned over long ago."""

    def grown(name: str) -> Iterator[Finding]:
        size = state.number("logs", "files", name)
        if size > most:
            summary = f"{name} has {size // MIB} MiB and is not turned over: see logrotate.service"
            expected = rule(f"at most {most} bytes", WHY)
            yield failed(summary, f"{size} bytes", expected, Action.RESTART_SERVICE, part=name)

    for name in state.names("logs", "files"):
        yield from within(grown(name))


def journald(state: StateView, most: int) -> Iterator[Finding]:
    """A finding when the journal is larger than the limit that journald has."""
    size = state.number("logs", "journal_bytes")
    if size > most:
        summary = f"the journal has {size // MIB} MiB, more than its limit of {most // MIB}"
        expected = rule(f"at most {most} bytes", WHY)
        yield failed(summary, f"{size} bytes", expected, Action.RESTART_SERVICE)
