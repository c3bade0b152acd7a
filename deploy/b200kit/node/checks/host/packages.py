"""The driver's packages: one version, fully installed, and held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.drift import same_version
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured


@check("packages.lockstep")
def lockstep(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """What speaks to the driver's private interface is of exactly the driver's version."""
    names = expect.words("driver.lockstep")
    running = state.text("nvml", "driver_version")
    if isinstance(running, Unmeasured):
        yield unread("the driver version", running)
        return
    branch, without = running.split(".")[0], expect.left_out()
    here = [n for n in names.value if not _is_left_out(n, branch, without, state)]
    found = [f for name in here for f in skew(state, name, branch, running, names.source)]
    why = "".join(f"; {name} is left out: {without[name]}" for name in without)
    yield from found or [passed(f"{', '.join(here)} are {running}{why}", names)]


def _is_left_out(name: str, branch: str, without: Mapping[str, str], state: StateView) -> bool:
    """Whether the node does without a package, under either name; one that is there is judged."""
    names = (name, f"{name}-{branch}")
    there = any(isinstance(state.at("packages", each).raw(), dict) for each in names)
    return not there and any(each in without for each in names)


def skew(state: StateView, plain: str, branch: str, want: str, source: str) -> Iterator[Finding]:
    """A finding when one package of the set is not there or of another version.

    Branches before 580 name it with the branch, such as nvidia-fabricmanager-570.
    """
    suffixed = f"{plain}-{branch}"
    name = suffixed if isinstance(state.at("packages", suffixed).raw(), dict) else plain
    installed = state.at("packages", name)
    expected = rule(want, source)
    found = installed.text("version")
    if installed.raw() is None:
        yield failed(f"{name} is not installed", "not installed", expected, Action.NONE, part=name)
    elif isinstance(found, Unmeasured):
        yield unread(f"the version of {name}", found)
    elif not same_version(found, want):
        summary = f"{name} is {found}, the running driver is {want}"
        yield failed(summary, found, expected, Action.NONE, part=name)
    else:
        yield from half_installed(name, installed.text("status"), expected)


def half_installed(name: str, status: str | Unmeasured, expected: Expected) -> Iterator[Finding]:
    """A finding when dpkg does not have a package whole: unpacked, half-configured, removed."""
    if isinstance(status, Unmeasured):
        yield unread(f"the status of {name}", status)
    elif status != "ii":
        summary = f"{name} is not fully installed (dpkg status {status})"
        yield failed(summary, status, expected, Action.NONE, part=name)


@check("packages.versions")
def versions(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every package of the driver set is installed at the version asked for."""
    requested = expect.driver_packages()
    found = [
        finding for name, desired in requested.items() for finding in wrong(state, name, desired)
    ]
    yield from found or [passed(f"{len(requested)} packages of the driver set are as asked")]


def wrong(state: StateView, name: str, desired: str) -> Iterator[Finding]:
    """A finding when one package is not there, of another version, or half installed."""
    version, status = (
        state.text("packages", name, "version"),
        state.text("packages", name, "status"),
    )
    expected = rule(f"{name} {desired}", "driver packages of the inventory")
    if state.is_null("packages", name):
        yield failed(f"{name} is not installed", "absent", expected, Action.NONE, part=name)
    elif isinstance(version, Unmeasured):
        yield unread(f"the version of {name}", version)
    elif not same_version(version, desired):
        summary = f"{name} is {version}, {desired} is wanted"
        yield failed(summary, version, expected, Action.NONE, part=name)
    else:
        yield from half_installed(name, status, expected)


@check("packages.held")
def held(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No package of the driver set can be upgraded behind our back."""
    requested = expect.driver_packages()
    expected = rule("held", "an upgrade of one package of the set skews it")
    found = []
    for name in requested:
        reading = state.flag("packages", name, "hold")
        if isinstance(reading, Unmeasured):
            found.append(unread(f"whether {name} is held", reading))
        elif not reading:
            summary = f"{name} is not held: an upgrade may skew it"
            found.append(failed(summary, "not held", expected, Action.NONE, part=name))
    yield from found or [passed(f"{len(requested)} packages of the driver set are held", expected)]
