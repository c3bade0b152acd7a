"""The clock: certificates, tokens and the order of log lines of a fleet depend on it."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.core.checks.tools import passed, rule, value
from deploy.core.expectation import Expectation
from deploy.core.judge import check
from deploy.core.state import StateView
from deploy.core.verdict import Action, Finding

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
