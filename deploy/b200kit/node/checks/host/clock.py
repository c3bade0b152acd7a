"""The clock: certificates, tokens and the order of log lines of a fleet depend on it."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule
from b200kit.node.checks.host import time_daemons
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

SYNCHRONIZED = rule("synchronized", "logs, tokens and certificates need the same time everywhere")


@check("clock.synchronized")
def synchronized(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The clock follows a time source, unless the inventory leaves it to another."""
    if not expect.clock_judged():
        yield passed("the clock is not judged: the inventory says so")
    elif state.flag("host", "clock_synchronized"):
        yield passed("the clock is synchronized", SYNCHRONIZED)
    else:
        summary = "the clock is not synchronized with a time source"
        yield failed(summary, "the clock False", SYNCHRONIZED, Action.RESTART_SERVICE)


@check("clock.one-service")
def one_service(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No two services steer the clock against each other."""
    names = expect.requested(list, "time_services")
    if not names:
        yield passed("the time service is not judged")
        return
    running = time_daemons.running({str(name): state.raw("units", str(name)) for name in names})
    expected = rule("one time service", "two of them steer the clock against each other")
    if len(running) > 1:
        summary = f"{len(running)} services set the clock: {', '.join(running)}; stop all but one"
        yield failed(summary, ", ".join(running), expected, Action.NONE)
    else:
        yield passed(f"the clock is set by {running[0] if running else 'no service'}", expected)
