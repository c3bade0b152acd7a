"""Logs that grow without end fill the disk, and a full disk stops everything."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured, View

MIB = 1 << 20
WHY = "limits of b200kit/stages/support/log_limits.py"


@check("host.logs")
def logs_kept_small(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Journal and log files are within their limits: logrotate and journald do their work."""
    requested = expect.requested("logs", dict)
    if requested is None:
        yield passed("no limit of logs is asked for")
        return
    desired = View(requested, "logs")
    most, journal = desired.number("file_bytes"), desired.number("journal_bytes")
    if isinstance(most, Unmeasured) or isinstance(journal, Unmeasured):
        raise Unexpected("logs: file_bytes and journal_bytes must be given")
    found = [*files(state, most), *journald(state, journal)]
    yield from found or [passed("the logs are within their limits", rule(f"{most} bytes", WHY))]


def files(state: StateView, most: int) -> Iterator[Finding]:
    """A finding for each file that should have been turned over long ago."""
    observed = state.get(dict, "logs", "files")
    if isinstance(observed, Unmeasured):
        yield unread("the size of the logs", observed)
        return
    for name in observed:
        size = state.number("logs", "files", str(name))
        if isinstance(size, Unmeasured):
            yield unread(f"the size of {name}", size)
        elif size > most:
            summary = f"{name} has {size // MIB} MiB and is not turned over: see logrotate.service"
            expected = rule(f"at most {most} bytes", WHY)
            yield failed(summary, f"{size} bytes", expected, Action.RESTART_SERVICE, part=str(name))


def journald(state: StateView, most: int) -> Iterator[Finding]:
    """A finding when the journal is larger than the limit that journald has."""
    size = state.number("logs", "journal_bytes")
    if isinstance(size, Unmeasured):
        yield unread("the size of the journal", size)
    elif size > most:
        summary = f"the journal has {size // MIB} MiB, more than its limit of {most // MIB}"
        expected = rule(f"at most {most} bytes", WHY)
        yield failed(summary, f"{size} bytes", expected, Action.RESTART_SERVICE)
