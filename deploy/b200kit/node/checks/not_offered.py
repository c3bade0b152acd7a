"""A check whose reading the running driver does not offer: a note where the data says so. Pure."""

from __future__ import annotations

from dataclasses import replace

from b200kit.node.state.expectation import Expectation
from b200kit.node.state.not_offered import branch, not_offered
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.node.state.view import StateView


def noted(expect: Expectation, state: StateView, finding: Finding) -> Finding:
    """The finding, or a note where `driver.may_lack` has its check and the driver is too old.

    The words must be those of this driver and of the data. With any other reason, and with a driver
    that offers the reading, it stays unmeasured.
    """
    if finding.status is not Status.UNMEASURED:
        return finding
    entry = expect.at("hardware", "expect", "driver.may_lack")
    first = entry.known(int, "value", finding.check)
    driver = state.known(str, "nvml", "driver_version") or ""
    running = branch(driver)
    if first is None or running is None or running >= first:
        return finding
    if finding.read != not_offered(driver, first):
        return finding
    return replace(
        finding,
        status=Status.PASS,
        action=Action.MONITOR,
        summary=finding.summary.replace("could not be read", "is not judged"),
        source=entry.known(str, "source") or "",
    )
