"""One driver: bound to every GPU, of one version in all its parts, with no option that hurts."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each, each_gpu, failed, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import SETTING
from b200kit.node.checks.pcie.bus import BusGpu, bus_gpus
from b200kit.node.lib.readings import is_digits
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, View

OWN = "nvidia"
"""Name of NVIDIA's driver on the PCI bus."""
OPTION_AWAY = (
    "take the option out of /etc/modprobe.d and the kernel command line, renew the initramfs "
    "(update-initramfs -u), then reboot: no reset and no power cycle changes it"
)


def numbers(version: str) -> tuple[int, ...]:
    """A version's numbers for comparison; what is no number counts as 0."""
    return tuple(int(part) if is_digits(part) else 0 for part in version.split("."))


@check("pci.driver", SETTING)
def bound(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """NVIDIA's driver owns every GPU of the bus; vfio-pci or nobody serves nothing."""
    del expect
    desired = rule(OWN, "the driver that must own every GPU")

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        owner = None if gpu.entry.is_null("driver") else gpu.entry.text("driver")
        if owner != OWN:
            text = "bound to no driver" if owner is None else f"bound to {owner}, not to {OWN}"
            summary = f"{gpu.subject} is {text}"
            yield failed(
                summary, text, desired, Action.REBOOT, gpu.known, gpu.part, subject=gpu.subject
            )

    return each(bus_gpus(state), check_gpu, passed(f"every GPU is bound to {OWN}", desired))


@check("driver.loaded")
def loaded(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The loaded kernel modules and the library NVML runs in are of one version."""
    del expect
    driver = state.text("nvml", "driver_version")
    expected = rule(driver, "module and library of one driver")

    def skewed(what: str, *keys: str) -> Iterator[Finding]:
        # NVML's own version is that of its interface before the driver's, "13.580.105.08".
        version = state.text(*keys).partition(".")[2] if keys[0] == "nvml" else state.text(*keys)
        if version != driver:
            summary = f"{what} is {version}, the running driver is {driver}: reboot"
            yield failed(summary, version, expected, Action.REBOOT)

    modules = ["nvidia"]
    if not state.is_null("modules", "nvidia_uvm"):  # loaded with the first CUDA process
        modules.append("nvidia_uvm")
    found = [
        *within(skewed("the library of NVML", "nvml", "nvml_version")),
        *(
            finding
            for name in modules
            for finding in within(skewed(f"kernel module {name}", "modules", name))
        ),
    ]
    yield from found or [passed(f"modules and library are {driver}", expected)]


@check("driver.version")
def version(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The running driver is the one asked for, and offers what must be known of this hardware."""
    minimum, requested = expect.hardware("minimum_driver", str), expect.driver_version()
    running = state.text("nvml", "driver_version")
    if numbers(running) < numbers(minimum.value):
        summary = f"driver {running} is older than {minimum.value}, the oldest judged here"
        yield failed(summary, running, minimum, Action.NONE)
    elif requested is not None and running != requested:
        expected = rule(requested, "driver version of the inventory")
        summary = f"driver {running} runs, {requested} is wanted: deploy it and reboot"
        yield failed(summary, running, expected, Action.REBOOT)
    else:
        yield passed(f"driver {running} runs", minimum)


@check("driver.gsp")
def gsp(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The GSP firmware on every GPU is the driver's own."""
    del expect
    running = state.text("nvml", "driver_version")
    expected = rule(running, "the driver carries its GSP firmware")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        firmware = gpu.text("gsp_firmware")
        if firmware != running:
            summary = f"{gpu.subject} runs GSP firmware {firmware}, the driver is {running}"
            yield failed(summary, f"GSP firmware {firmware}", expected, Action.REBOOT, gpu)

    return each_gpu(state, check_gpu, passed(f"GSP firmware {running} on every GPU", expected))


@check("driver.options")
def options(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No module option of the driver takes NVLink away, in whole or in part."""
    rules = expect.hardware("driver.options", dict)
    if state.is_null("kernel", "driver_options") and state.is_null("modules", "nvidia"):
        yield passed("no driver is loaded, so none has an option")
        return
    observed = View(state.get(dict, "kernel", "driver_options"), "kernel.driver_options")
    found = [
        finding
        for name in rules.value
        for finding in within(harmful(expect, observed, name, rules))
    ]
    yield from found or [passed(f"options {', '.join(rules.value)} are as they must be", rules)]


def harmful(expect: Expectation, observed: View, name: str, rules: Expected) -> Iterator[Finding]:
    """A finding when one option has a value that hurts; one the driver does not have is fine."""
    entry = expect.at("hardware", "expect", "driver.options", "value", name)
    desired = entry.text("desired")
    if not observed.is_missing(name) and (setting := observed.text(name)) != desired:
        expected, hurts = Expected(desired, "", rules.source), entry.known(str, "meaning")
        read, summary = f"{name}: {setting}", f"NVreg_{name}={setting} {hurts or 'hurts'}"
        yield failed(summary, read, expected, Action.NONE, remedy=OPTION_AWAY)
