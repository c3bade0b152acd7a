"""Packages: the driver's of one version and held, nothing half done, nothing changed by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit.node.checks.findings import failed, noted, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.facts.dpkg_state import VENDOR
from b200kit.node.state.drift import same_version
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread

_OWN = rule("the inventory's repositories", "parts of two archives refuse each other")
_OFF = rule("off", "a driver or a kernel must not change under a running server")
_LEFT = rule("left to b200kit", "a restarted fabric manager takes the fabric from what serves")
_WHOLE = rule("fully installed", "a half-installed driver is not the one that was proven")
_BUILT = rule("built for every kernel that may boot", "a kernel without the module has no driver")


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


def _unasked(expect: Expectation, state: StateView) -> bool:
    """Whether none of it is judged: nothing was asked for, or this is a look at what serves."""
    return expect.is_missing("automatic") or state.is_missing("automatic")


@check("packages.origin")
def origin(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every package of the driver set is from a repository of the inventory."""
    if _unasked(expect, state) or not expect.get(list, "automatic", "sources"):
        yield passed("no repository is named to compare with")
        return
    own = {str(url).rstrip("/") for url in expect.get(list, "automatic", "sources")}

    def foreign(name: str) -> Iterator[Finding]:
        if state.is_null("packages", name):
            return  # judged by packages.versions
        version = state.text("packages", name, "version")
        sources = [str(url) for url in state.get(list, "automatic", "origins", name)]
        if not sources:
            summary = f"{name} {version} is in none of the node's repositories any more"
            yield noted(summary, None, "no repository", _OWN)
        elif not own.intersection(sources):
            summary = f"{name} {version} is from {', '.join(sources)}"
            yield failed(summary, ", ".join(sources), _OWN, Action.NONE, part=name)

    names = expect.driver_packages()
    found = [finding for name in names for finding in within(foreign(name))]
    yield from found or [passed(f"{len(names)} packages are from the inventory's repositories")]


@check("upgrades.automatic")
def upgrades(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Nothing upgrades packages by itself."""
    if _unasked(expect, state) or state.is_null("automatic", "upgrades"):
        yield passed("nothing upgrades packages by itself")
        return
    often = state.text("automatic", "upgrades")
    if often == "0":
        yield passed("automatic upgrades are off", _OFF)
    else:
        summary = f"automatic upgrades are on (APT::Periodic::Unattended-Upgrade is {often})"
        yield failed(summary, often, _OFF, Action.NONE)


@check("restarts.automatic")
def restarts(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """needrestart leaves what serves, and what it runs on, alone."""
    if _unasked(expect, state) or state.is_null("automatic", "restarts"):
        yield passed("nothing restarts services by itself")
        return
    units = [str(unit) for unit in state.get(list, "automatic", "restarts")]
    if units:
        summary = f"needrestart restarts {', '.join(units)} after an upgrade of what they use"
        yield failed(summary, ", ".join(units), _LEFT, Action.NONE)
    else:
        yield passed("needrestart leaves what serves alone", _LEFT)


@check("host.dpkg")
def dpkg(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No dpkg was interrupted, and the vendor's packages are fully installed; others are noted."""
    if expect.unfinished() == "off":
        yield passed("what dpkg left is not judged")
        return
    interrupted, packages = state.flag("dpkg", "interrupted"), state.get(dict, "dpkg", "broken")
    ours = {name: status for name, status in packages.items() if VENDOR.search(name)}
    others = {name: status for name, status in packages.items() if name not in ours}
    if interrupted or ours:
        what = f"{_told(ours)} not fully installed" if ours else "dpkg was interrupted"
        summary = f"{what}; b200 deploy finishes it"
        yield failed(summary, _told(ours) or "dpkg's journal", _WHOLE, Action.NONE)
    elif others:
        yield noted(f"{_told(others)} not fully installed", None, _told(others), _WHOLE)
    else:
        yield passed("dpkg has nothing unfinished", _WHOLE)


def _told(packages: dict[str, str]) -> str:
    return ", ".join(f"{name} ({status})" for name, status in packages.items())


@check("driver.next-boot")
def next_boot(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A kernel on the disk has the driver's module; it is noted when the default one has none.

    A node that runs is not stopped for a kernel that it has not booted: the module can be built
    before it does.
    """
    if expect.unfinished() == "off":
        yield passed("the next boot is not judged")
        return
    built = state.get(dict, "driver_module", "built_for")
    default = state.known(str, "driver_module", "default_kernel")
    if not built:  # a container or an image without them: its host's are not seen here
        raise Unread("driver_module.built_for", "no kernel has a folder below /lib/modules")
    if not any(version is not None for version in built.values()):
        summary = "the nvidia module is built for no kernel: the next boot has no driver"
        yield failed(summary, _kernels(built), _BUILT, Action.NONE)
    elif default is not None and built.get(default) is None:
        summary = (
            f"kernel {default} boots next and has no nvidia module: "
            f"install its headers, then `dkms autoinstall -k {default}`"
        )
        yield noted(summary, None, _kernels(built), _BUILT)
    else:
        yield passed("the next boot has the driver's module", _BUILT)


def _kernels(built: dict[str, object]) -> str:
    return ", ".join(f"{kernel}: {version or 'none'}" for kernel, version in built.items())
