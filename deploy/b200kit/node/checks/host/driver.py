"""One driver: bound to every GPU, of one version in all its parts, with no option that hurts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from b200kit.node.checks.findings import each_gpu, failed, passed, rule, unread, value
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import SETTING
from b200kit.node.checks.pcie.bus import BusGpu, each_on_bus
from b200kit.node.state.expectation import Expectation, Expected, Unexpected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, Missing, StateView, Unmeasured

OWN = "nvidia"
"""Name of NVIDIA's driver on the PCI bus."""


def numbers(version: str) -> tuple[int, ...]:
    """A version's numbers for comparison; what is no number counts as 0."""
    return tuple(int(part) if part.isdecimal() else 0 for part in version.split("."))


@check("pci.driver", SETTING)
def bound(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """NVIDIA's driver owns every GPU of the bus; vfio-pci or nobody serves nothing."""
    del expect
    desired = rule(OWN, "the driver that must own every GPU")

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        owner = gpu.entry.text("driver")
        nobody = gpu.entry.is_null("driver")
        if isinstance(owner, Unmeasured) and not nobody:
            yield unread("the driver", owner, gpu.known, subject=gpu.name)
        elif owner != OWN:
            text = "bound to no driver" if nobody else f"bound to {owner}, not to {OWN}"
            summary = f"{gpu.name} is {text}"
            yield failed(
                summary, text, desired, Action.REBOOT, gpu.known, gpu.part, subject=gpu.name
            )

    return each_on_bus(state, check_gpu, passed(f"every GPU is bound to {OWN}", desired))


@check("driver.loaded")
def loaded(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The loaded kernel modules and the library NVML runs in are of one version."""
    del expect
    driver = state.text("nvml", "driver_version")
    if isinstance(driver, Unmeasured):
        yield unread("the driver version", driver)
        return
    expected = rule(driver, "module and library of one driver")
    found = [f for what, reading in parts(state) for f in skewed(what, reading, driver, expected)]
    yield from found or [passed(f"modules and library are {driver}", expected)]


def parts(state: StateView) -> Iterator[tuple[str, str | Unmeasured]]:
    """The parts of a driver that say a version; nvidia_uvm is loaded with the first CUDA process.

    NVML's own version is that of its interface before the driver's, "13.580.105.08".
    """
    library = state.text("nvml", "nvml_version")
    yield "the library of NVML", library if isinstance(library, Unmeasured) else tail(library)
    yield "kernel module nvidia", state.text("modules", "nvidia")
    if not state.is_null("modules", "nvidia_uvm"):
        yield "kernel module nvidia_uvm", state.text("modules", "nvidia_uvm")


def tail(version: str) -> str:
    """The driver's version in NVML's own."""
    return version.partition(".")[2]


def skewed(
    what: str, reading: str | Unmeasured, driver: str, expected: Expected
) -> Iterator[Finding]:
    """A finding when one part is of another version, or of none that could be read."""
    if isinstance(reading, Unmeasured):
        yield unread(f"the version of {what}", reading)
    elif reading != driver:
        summary = f"{what} is {reading}, the running driver is {driver}: reboot"
        yield failed(summary, reading, expected, Action.REBOOT)


@check("driver.version")
def version(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The running driver is the one asked for, and offers what must be known of this hardware."""
    minimum, requested = expect.hardware("minimum_driver", str), expect.driver_version()
    running = state.text("nvml", "driver_version")
    if isinstance(running, Unmeasured):
        yield unread("the driver version", running)
    elif numbers(running) < numbers(minimum.value):
        summary = f"driver {running} is older than {minimum.value}, the oldest judged here"
        yield failed(summary, running, minimum, Action.NONE)
    elif requested is not None and running != requested:
        expected = rule(requested, "driver version of the inventory")
        summary = f"driver {running} runs, {requested} is wanted: deploy it and reboot"
        yield failed(summary, running, expected, Action.REBOOT)
    else:
        yield passed(f"driver {running} runs", minimum)


@check("driver.gsp")
def gsp(expect: Expectation, state: StateView) -> Iterable[Finding]:
    """The GSP firmware on every GPU is the driver's own."""
    del expect
    running = state.text("nvml", "driver_version")
    if isinstance(running, Unmeasured):
        return [unread("the driver version", running)]
    expected = rule(running, "the driver carries its GSP firmware")

    def check_gpu(gpu: GpuView) -> list[Finding]:
        return value(
            "GSP firmware",
            gpu.text("gsp_firmware"),
            lambda firmware: firmware == running,
            lambda firmware: f"{gpu.subject} runs GSP firmware {firmware}, the driver is {running}",
            expected,
            Action.REBOOT,
            gpu,
        )

    return each_gpu(state, check_gpu, passed(f"GSP firmware {running} on every GPU", expected))


@check("driver.options")
def options(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No module option of the driver takes NVLink away, in whole or in part."""
    rules = expect.hardware("driver.options", dict)
    observed = state.get(dict, "kernel", "driver_options")
    if state.is_null("kernel", "driver_options") and state.is_null("modules", "nvidia"):
        yield passed("no driver is loaded, so none has an option")
    elif isinstance(observed, Unmeasured):
        yield unread("the driver's module options", observed)
    else:
        found = [f for name in rules.value for f in harmful(expect, state, name, rules)]
        yield from found or [passed(f"options {', '.join(rules.value)} are as they must be", rules)]


def harmful(expect: Expectation, state: StateView, name: str, rules: Expected) -> Iterator[Finding]:
    """A finding when one option has a value that hurts; one the driver does not have is fine."""
    entry = expect.at("hardware", "expect", "driver.options", "value", name)
    desired, setting = entry.text("desired"), state.text("kernel", "driver_options", name)
    if isinstance(desired, Unmeasured):
        raise Unexpected(desired.reason)
    if isinstance(setting, Missing):
        return
    if isinstance(setting, Unmeasured):
        yield unread(f"module option {name}", setting)
    elif setting != desired:
        expected = Expected(desired, "", rules.source)
        summary = f"NVreg_{name}={setting} {entry.text('meaning') or 'hurts'}: remove it and reboot"
        yield failed(summary, f"{name}: {setting}", expected, Action.REBOOT)
