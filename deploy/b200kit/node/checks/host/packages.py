"""The driver's packages: one version, fully installed, and held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit.node.checks.findings import failed, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.state.drift import same_version
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView


@check("packages.lockstep")
def lockstep(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """What speaks to the driver's private interface is of exactly the driver's version."""
    names = expect.words("driver.lockstep")
    running = state.text("nvml", "driver_version")
    branch, without = running.split(".")[0], expect.left_out()
    here = [n for n in names.value if not _is_left_out(n, branch, without, state)]
    expected, because = rule(running, names.source), f"the running driver is {running}"
    found: list[Finding] = []
    for name in (_own_name(plain, branch, state) for plain in here):
        skewed = wrong(state, name, running, expected, because, absent="not installed")
        found += within(skewed)
    why = "".join(f"; {name} is left out: {without[name]}" for name in without)
    yield from found or [passed(f"{', '.join(here)} are {running}{why}", names)]


def _is_left_out(name: str, branch: str, without: Mapping[str, str], state: StateView) -> bool:
    """Whether the node does without a package, under either name; one that is there is judged."""
    names = (name, f"{name}-{branch}")
    there = any(state.known(dict, "packages", each) is not None for each in names)
    return not there and any(each in without for each in names)


def _own_name(plain: str, branch: str, state: StateView) -> str:
    """Branches before 580 name a package with the branch, such as nvidia-fabricmanager-570."""
    suffixed = f"{plain}-{branch}"
    return plain if state.known(dict, "packages", suffixed) is None else suffixed


def wrong(
    state: StateView,
    name: str,
    desired: str,
    expected: Expected,
    because: str,
    absent: str = "absent",
) -> Iterator[Finding]:
    """A finding when a package is not there, of another version, or not fully installed."""
    if state.is_null("packages", name):
        summary, read = f"{name} is not installed", absent
    elif not same_version(read := state.text("packages", name, "version"), desired):
        summary = f"{name} is {read}, {because}"
    elif (read := state.text("packages", name, "status")) != "ii":
        summary = f"{name} is not fully installed (dpkg status {read})"
    else:
        return
    yield failed(summary, read, expected, Action.NONE, part=name)


@check("packages.versions")
def versions(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every package of the driver set is installed at the version asked for."""
    requested = expect.driver_packages()
    found: list[Finding] = []
    for name, desired in requested.items():
        expected = rule(f"{name} {desired}", "driver packages of the inventory")
        because = f"{desired} is wanted"
        found += within(wrong(state, name, desired, expected, because))
    yield from found or [passed(f"{len(requested)} packages of the driver set are as asked")]


@check("packages.held")
def held(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No package of the driver set can be upgraded behind our back."""
    requested = expect.driver_packages()
    expected = rule("held", "an upgrade of one package of the set skews it")

    def loose(name: str) -> Iterator[Finding]:
        if state.is_null("packages", name):
            return  # packages.versions says so
        if not state.flag("packages", name, "hold"):
            summary = f"{name} is not held: an upgrade may skew it"
            yield failed(summary, "not held", expected, Action.NONE, part=name)

    found = [finding for name in requested for finding in within(loose(name))]
    yield from found or [passed(f"{len(requested)} packages of the driver set are held", expected)]
