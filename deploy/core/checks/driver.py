"""One driver version: NVML, loaded module, GSP firmware, packages, and what was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.core.checks.tools import each_gpu, failed, passed, rule, unread, value
from deploy.core.drift import same_version
from deploy.core.expectation import Expectation
from deploy.core.judge import check
from deploy.core.state import GpuView, StateView, Unmeasured
from deploy.core.verdict import Action, Finding


def numbers(version: str) -> tuple[int, ...]:
    """A version's numbers for comparison; what is no number counts as 0."""
    return tuple(int(part) if part.isdecimal() else 0 for part in version.split("."))


@check("driver.loaded")
def loaded(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The loaded kernel module and the library NVML runs in are of one version."""
    del expect
    library, module = state.text("nvml", "driver_version"), state.text("modules", "nvidia")
    for what, reading in (("the driver version", library), ("the loaded module", module)):
        if isinstance(reading, Unmeasured):
            yield unread(what, reading)
            return
    expected = rule(library, "module and library of one driver")
    if library != module:
        summary = f"kernel module nvidia {module} is loaded but the library is {library}"
        yield failed(summary, f"/sys/module/nvidia/version {module}", expected, Action.REBOOT)
    else:
        yield passed(f"module and library are {library}", expected)


@check("driver.version")
def version(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The running driver is the one asked for, and knows this hardware."""
    minimum, asked = expect.hardware("minimum_driver", str), expect.driver_version()
    running = state.text("nvml", "driver_version")
    if isinstance(running, Unmeasured):
        yield unread("the driver version", running)
    elif numbers(running) < numbers(minimum.value):
        summary = f"driver {running} is older than {minimum.value}, the first for this hardware"
        yield failed(summary, running, minimum, Action.NONE)
    elif asked is not None and running != asked:
        expected = rule(asked, "driver version of the inventory")
        summary = f"driver {running} runs, {asked} is wanted: deploy it and reboot"
        yield failed(summary, running, expected, Action.REBOOT)
    else:
        yield passed(f"driver {running} runs", minimum)


@check("driver.gsp")
def gsp(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The GSP firmware on every GPU is the driver's own."""
    del expect
    running = state.text("nvml", "driver_version")
    expected = rule(running or "the driver's version", "the driver carries its GSP firmware")

    def look(gpu: GpuView) -> list[Finding]:
        return value(
            "GSP firmware",
            gpu.text("gsp_firmware"),
            lambda firmware: firmware == running,
            lambda firmware: f"{gpu.subject} runs GSP firmware {firmware}, the driver is {running}",
            expected,
            Action.REBOOT,
            gpu,
        )

    return each_gpu(state, look, passed(f"GSP firmware {running or ''} on every GPU", expected))


@check("packages.lockstep")
def lockstep(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """What speaks to the driver's private interface is of exactly the driver's version."""
    names = expect.hardware("driver.lockstep", list)
    running = state.text("nvml", "driver_version")
    if isinstance(running, Unmeasured):
        yield unread("the driver version", running)
        return
    branch = running.split(".")[0]
    found = [f for name in names.value for f in skew(state, name, branch, running, names.source)]
    yield from found or [passed(f"{', '.join(names.value)} are {running}", names)]


def skew(state: StateView, name: str, branch: str, want: str, source: str) -> Iterator[Finding]:
    """A finding when one package of the set is not there or of another version.

    Branches before 580 name it with the branch, such as nvidia-fabricmanager-570.
    """
    installed = state.at("packages", name)
    if not isinstance(installed.raw(), dict):
        suffixed = state.at("packages", f"{name}-{branch}")
        installed = suffixed if isinstance(suffixed.raw(), dict) else installed
    expected = rule(want, source)
    found = installed.text("version")
    if installed.raw() is None:
        yield failed(f"{name} is not installed", "not installed", expected, Action.NONE, part=name)
    elif isinstance(found, Unmeasured):
        yield unread(f"the version of {name}", found)
    elif not same_version(found, want):
        summary = f"{name} is {found}, the running driver is {want}"
        yield failed(summary, found, expected, Action.NONE, part=name)


@check("packages.versions")
def versions(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every package of the driver set is installed at the version asked for."""
    asked = expect.driver_packages()
    found = [finding for name, wanted in asked.items() for finding in wrong(state, name, wanted)]
    yield from found or [passed(f"{len(asked)} packages of the driver set are as asked")]


def wrong(state: StateView, name: str, wanted: str) -> Iterator[Finding]:
    """A finding when one package is not there, of another version, or half installed."""
    version, status = (
        state.text("packages", name, "version"),
        state.text("packages", name, "status"),
    )
    expected = rule(f"{name} {wanted}", "driver packages of the inventory")
    if state.is_null("packages", name):
        yield failed(f"{name} is not installed", "absent", expected, Action.NONE, part=name)
    elif isinstance(version, Unmeasured):
        yield unread(f"the version of {name}", version)
    elif isinstance(status, Unmeasured):
        yield unread(f"the status of {name}", status)
    elif not same_version(version, wanted):
        summary = f"{name} is {version}, {wanted} is wanted"
        yield failed(summary, version, expected, Action.NONE, part=name)
    elif status != "ii":
        summary = f"{name} is not fully installed (dpkg status {status})"
        yield failed(summary, status, expected, Action.NONE, part=name)


@check("packages.held")
def held(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No package of the driver set can be upgraded behind our back."""
    asked = expect.driver_packages()
    expected = rule("held", "an upgrade of one package of the set skews it")
    found = []
    for name in asked:
        reading = state.flag("packages", name, "hold")
        if isinstance(reading, Unmeasured):
            found.append(unread(f"whether {name} is held", reading))
        elif not reading:
            summary = f"{name} is not held: an upgrade may skew it"
            found.append(failed(summary, "not held", expected, Action.NONE, part=name))
    yield from found or [passed(f"{len(asked)} packages of the driver set are held", expected)]
