"""What would keep the driver from being built, loaded or exchanged. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit.node.checks.findings import passed, within
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import StateView
from b200kit.readiness.findings import note, refused
from b200kit.stages.support import operating_systems


def headers(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """DKMS finds headers of the kernel that runs and of the one that boots next."""
    if state.is_null("readiness", "headers"):
        yield passed("a container: its host builds the driver")
        return
    kernels = state.names("readiness", "headers")
    found = [finding for kernel in kernels for finding in within(_headers(expect, state, kernel))]
    yield from found or [passed(f"headers for {', '.join(kernels)} are there or can be had")]


def _headers(expect: Expectation, state: StateView, kernel: str) -> Iterator[Finding]:
    built = state.known(str, "driver_module", "built_for", kernel)
    if built == expect.text("ready", "driver") or state.flag("readiness", "headers", kernel):
        return
    if f"linux-headers-{kernel}" in state.get(list, "apt", "missing"):
        running = kernel == state.known(str, "driver_module", "running_kernel")
        which = "that runs" if running else "that boots next"
        summary = f"kernel {kernel} {which} has no headers, and apt has no linux-headers-{kernel}"
        remedy = "boot a kernel whose headers apt has, or install its headers: DKMS needs them"
        yield refused(summary, "no headers", f"headers of {kernel}", remedy)


def secure_boot(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel will take the module that DKMS builds."""
    loaded = state.known(str, "modules", "nvidia") == expect.text("ready", "driver")
    none = loaded or state.is_null("readiness", "secure_boot")
    if none or not state.flag("readiness", "secure_boot"):
        yield passed("no Secure Boot keeps the driver out")
    elif state.known(bool, "readiness", "signing_key_enrolled"):
        yield passed("Secure Boot is on, and the key that DKMS signs with is enrolled")
    else:
        summary = "Secure Boot is on and does not know the key that DKMS signs with"
        document = state.value if isinstance(state.value, Mapping) else {}
        system = operating_systems.system_of(document)
        key = system.driver.signed_by if system else "CERTIFICATE"
        remedy = (
            f"install dkms and mokutil, enroll its key (mokutil --import {key}, confirmed at the "
            "console), or switch Secure Boot off"
        )
        yield refused(summary, "on, key not enrolled", "off, or the key enrolled", remedy)


def nouveau(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No other driver holds the GPUs, or one that the settings keep out at the next boot."""
    loaded = state.raw("modules", "nouveau")
    if loaded is None:
        yield passed("nouveau is not loaded")
    elif "nouveau" in expect.settings().names():
        yield note(
            "nouveau is loaded: the settings stage keeps it out from the next boot on", loaded
        )
    else:
        remedy = "let the inventory's settings keep it out (nouveau), or blacklist it"
        yield refused("nouveau is loaded and holds the GPUs", loaded, "not loaded", remedy)


def present(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A driver that is there already came by packages, so apt can exchange it."""
    files = state.get(dict, "readiness", "driver", "files")
    foreign = sorted(str(path) for path, package in files.items() if package is None)
    if state.flag("readiness", "driver", "runfile"):
        summary = "a driver was installed by the vendor's runfile (/usr/bin/nvidia-uninstall)"
        yield refused(
            summary, "runfile", "packages", "run nvidia-uninstall on the node, and reboot"
        )
    elif foreign:
        summary = f"a driver is there that no package has: {foreign[0]}"
        remedy = "remove it, or use an image without a driver"
        yield refused(summary, ", ".join(foreign), "packages", remedy)
    else:
        yield _packaged(expect, state, sorted({str(package) for package in files.values()}))


def _packaged(expect: Expectation, state: StateView, packages: list[str]) -> Finding:
    running, desired = state.known(str, "modules", "nvidia"), expect.text("ready", "driver")
    if running in (None, desired):
        return passed(f"the driver's packages: {', '.join(packages) or 'none yet'}")
    summary = f"driver {running} is loaded, from {', '.join(packages) or 'packages'}"
    return note(f"{summary}: it is exchanged for {desired}", running)
