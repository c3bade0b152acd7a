"""The clock: certificates, tokens and the order of log lines of a fleet depend on it."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule, unread, value
from b200kit.node.checks.host import time_daemons
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured

SYNCHRONIZED = rule("synchronized", "logs, tokens and certificates need the same time everywhere")


@check("clock.synchronized")
def synchronized(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The clock follows a time source, unless the inventory leaves it to another."""
    if not expect.clock_judged():
        yield passed("the clock is not judged: the inventory says so")
        return
    reading = state.flag("host", "clock_synchronized")
    found = value(
        "the clock",
        reading,
        bool,
        lambda _: "the clock is not synchronized with a time source",
        SYNCHRONIZED,
        Action.RESTART_SERVICE,
    )
    yield from found or [passed("the clock is synchronized", SYNCHRONIZED)]


@check("clock.one-service")
def one_service(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No two services steer the clock against each other."""
    names = expect.requested("time_services", list)
    if not names:
        yield passed("the time service is not judged")
        return
    units = {str(name): state.at("units", str(name)).raw() for name in names}
    unknown = [unit for unit in units.values() if isinstance(unit, Unmeasured)]
    if unknown:
        yield unread("which time services run", unknown[0])
        return
    running = time_daemons.running(units)
    expected = rule("one time service", "two of them steer the clock against each other")
    if len(running) > 1:
        summary = f"{len(running)} services set the clock: {', '.join(running)}; stop all but one"
        yield failed(summary, ", ".join(running), expected, Action.NONE)
    else:
        yield passed(f"the clock is set by {running[0] if running else 'no service'}", expected)
