"""A driver that a hardware accepts offers what its checks read, or the data says what may lack."""

from __future__ import annotations

from typing import Any

from b200kit.catalog import hardware
from b200kit.node.checks.judge import judge
from b200kit.node.facts.nvml.worker import first_branches
from b200kit.node.lib.readings import unmeasured
from b200kit.node.state.not_offered import branch, not_offered
from tests.subtests import in_subtests
from tests.unit.catalog.test_hardware import HEALTHY, expectation, h200
from tests.unit.lab.nvml.abi import vendor
from tests.unit.states import recorded

BRANCHES = sorted(vendor()["headers"])


def with_driver(state: dict[str, Any], driver: str) -> dict[str, Any]:
    """A state as it would be with another driver: its version, and what it does not offer."""
    running = branch(driver) or 0
    state["nvml"].update(driver_version=driver, nvml_version=f"13.{driver}")
    state["modules"].update(nvidia=driver, nvidia_uvm=driver)
    for name, entry in state["packages"].items():
        if entry and ("nvidia" in name or "nvsdm" in name):
            entry["version"] = f"{driver}-1"
    for gpu in state["gpus"]:
        gpu["gsp_firmware"] = driver
        for key, first in first_branches().items():
            top, _, rest = key.partition(".")
            if running >= first or top not in gpu:
                continue
            why = unmeasured(not_offered(driver, first))
            if not rest:
                gpu[top] = why
            for below in gpu[top] if isinstance(gpu[top], list) else [gpu[top]]:
                if rest and rest in below:
                    below[rest] = why
    return state


def verdict(name: str, driver: str) -> tuple[str, set[str]]:
    """How the healthy node of a hardware is judged with a driver, and the checks with notes."""
    state = recorded(HEALTHY[name]) if name in HEALTHY else h200()
    found = judge(expectation(name), with_driver(state, driver))
    return found.fit, {finding.check for finding in found.findings if finding.action}


@in_subtests("name", hardware.names())
def test_every_driver_that_is_accepted_can_pass(name: str) -> None:
    data = hardware.load(name)
    minimum, lacks = (data["expect"][k]["value"] for k in ("minimum_driver", "driver.may_lack"))
    oldest = branch(minimum) or 0
    drivers = [minimum, *(f"{number}.999.99" for number in BRANCHES if number >= oldest)]
    for driver in drivers:
        missing = {check for check, first in lacks.items() if first > (branch(driver) or 0)}
        judged = missing - set(data.get("not_applicable", {}))
        assert verdict(name, driver) == ("fit", judged), driver


@in_subtests("name", hardware.names())
def test_drivers_of_older_branches_could_never_pass(name: str) -> None:
    """The minimum is not higher than it must be: a branch below it, and something blocks."""
    document = expectation(name)
    document["hardware"]["expect"]["minimum_driver"]["value"] = "1.0"
    oldest = branch(hardware.load(name)["expect"]["minimum_driver"]["value"]) or 0
    driver = f"{max(number for number in BRANCHES if number < oldest)}.1.1"
    state = recorded(HEALTHY[name]) if name in HEALTHY else h200()
    assert judge(document, with_driver(state, driver)).fit == "unmeasured"
