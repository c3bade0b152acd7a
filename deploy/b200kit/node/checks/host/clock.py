"""The clock: certificates, tokens and the order of log lines of a fleet depend on it.

A node has one service that sets it: two steer against each other. Which one is the site's choice;
where none runs, systemd-timesyncd does, which every supported system has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit.node.checks.findings import failed, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

DEFAULT = "systemd-timesyncd.service"
CHRONY = "chrony.service"
SERVICES = (
    CHRONY,
    "chronyd.service",
    "ntp.service",
    "ntpd.service",
    "ntpsec.service",
    "openntpd.service",
    DEFAULT,
)
"""Their units on Debian and Ubuntu; chronyd.service is an alias, found where somebody made it one.

PTP is not among them: phc2sys sets the clock only where it was configured to, and its unit does not
say so; a node with PTP alone says clock_synchronized = False, or runs chrony over its PHC.
"""
SYNCHRONIZED = rule("synchronized", "logs, tokens and certificates need the same time everywhere")


def installed(units: Mapping[str, object]) -> list[str]:
    """The services that are there, the default last, which can always be."""
    found = [name for name in SERVICES if _says(units.get(name), "load", "loaded")]
    return [*(name for name in found if name != DEFAULT), DEFAULT]


def _says(unit: object, key: str, value: str) -> bool:
    return isinstance(unit, Mapping) and unit.get(key) == value


def running(units: Mapping[str, object]) -> list[str]:
    """The services that run, each once: an alias has the process of the unit it names."""
    found: dict[object, str] = {}
    for name in SERVICES:
        unit = units.get(name)
        if isinstance(unit, Mapping) and _says(unit, "active", "active"):
            found.setdefault(unit.get("main_pid") or name, name)
    return list(found.values())


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
    found = running({str(name): state.raw("units", str(name)) for name in names})
    expected = rule("one time service", "two of them steer the clock against each other")
    if len(found) > 1:
        summary = f"{len(found)} services set the clock: {', '.join(found)}; stop all but one"
        yield failed(summary, ", ".join(found), expected, Action.NONE)
    else:
        yield passed(f"the clock is set by {found[0] if found else 'no service'}", expected)
