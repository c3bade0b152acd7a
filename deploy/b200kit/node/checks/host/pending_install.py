"""Nothing is half done: dpkg has finished, and the next boot has a driver."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.facts.dpkg_state import VENDOR
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread

_WHOLE = rule("fully installed", "a half-installed driver is not the one that was proven")
_BUILT = rule("built for every kernel that may boot", "a kernel without the module has no driver")


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
