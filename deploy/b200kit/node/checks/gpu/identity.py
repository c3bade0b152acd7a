"""Is this the hardware it should be, and is all of it there? By PCI id, never by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from b200kit.node.checks.findings import each_gpu, failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import OnNode
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unmeasured, View

MOST_MODULES = 64
"""More GPUs than this sit on no baseboard."""


def pci_gpus(state: StateView) -> list[View] | Unmeasured:
    """GPUs on the PCI bus, as the kernel lists them."""
    return state.items("pci", "gpus")


@check("identity.device")
def device(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every NVIDIA GPU on the bus has a PCI id of this hardware."""
    desired = expect.words("pci.ids")
    gpus = pci_gpus(state)
    if isinstance(gpus, Unmeasured):
        yield unread("the PCI bus", gpus)
        return
    found = [finding for gpu in gpus for finding in wrong_device(gpu, desired, state)]
    yield from found or [passed(f"{len(gpus)} GPUs with PCI id {desired.text}", desired)]


def wrong_device(gpu: View, desired: Expected, state: StateView) -> Iterator[Finding]:
    """A finding when one PCI device is another GPU, or is unknown."""
    ids = [gpu.text("vendor"), gpu.text("device")]
    address = gpu.text("address") or gpu.path
    known = state.gpu_at(address)
    name = known.subject if known else f"the GPU at {address}"
    for part in ids:
        if isinstance(part, Unmeasured):
            yield unread("its PCI id", part, subject=name)
            return
    observed = ":".join(map(str, ids))
    if observed not in desired.value:
        summary = f"{name} is {observed}, no {desired.text}: the hardware file does not fit"
        part = f"PCI {address}"
        yield failed(summary, observed, desired, Action.NONE, part=part, subject=name)


def absent_modules(state: StateView, count: int) -> str:
    """The baseboard modules nobody answers for, "module 5"; empty when that is unknown.

    The modules of an HGX baseboard are numbered from 1 (NVML's module id), so what the remaining
    GPUs do not claim is where the missing one sits, whatever its address was.
    """
    if count > MOST_MODULES:
        return ""
    gpus = state.gpus()
    claimed = [] if isinstance(gpus, Unmeasured) else [gpu.number("module_id") for gpu in gpus]
    known = {number for number in claimed if isinstance(number, int)}
    absent = sorted(set(range(1, count + 1)) - known)
    is_known = known and len(known) == len(claimed) and len(absent) + len(known) == count
    return f"module {', '.join(map(str, absent))}" if is_known and absent else ""


@check("identity.pci-count")
def pci_count(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The PCI bus shows as many GPUs as the node must have."""
    desired = rule(expect.gpu_count(), "gpu_count of the inventory")
    gpus = pci_gpus(state)
    if isinstance(gpus, Unmeasured):
        yield unread("the PCI bus", gpus)
    elif len(gpus) != desired.value:
        where = absent_modules(state, int(desired.value))
        summary = f"{len(gpus)} of {desired.value} GPUs are on the PCI bus"
        here = ", ".join(str(gpu.at("address").raw()) for gpu in gpus) or "none"
        text = f"{summary}; {where} is missing" if where else summary
        yield failed(text, f"on the bus: {here}", desired, Action.POWER_CYCLE, part=where)
    else:
        yield passed(f"{len(gpus)} of {desired.value} GPUs are on the PCI bus", desired)


@check("identity.nvml-count", OnNode(part=""))  # none is listed: the driver, and no GPU
def nvml_count(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """NVML lists every GPU of the PCI bus; a missing one is named by its address."""
    desired = rule(expect.gpu_count(), "gpu_count of the inventory, and the PCI bus")
    listed, bus = addresses(state.gpus(), "pci_address"), addresses(pci_gpus(state), "address")
    for what, reading in (("the GPUs", listed), ("the PCI bus", bus)):
        if isinstance(reading, Unmeasured):
            yield unread(what, reading)
    if isinstance(listed, Unmeasured):
        return
    missing = [address for address in bus or [] if address not in listed]
    for address in missing:
        summary = f"the GPU at {address} is on the PCI bus but NVML does not list it"
        read = f"NVML lists {len(listed)} GPUs"
        part, subject = f"PCI {address}", f"the GPU at {address}"
        yield failed(summary, read, desired, Action.REBOOT, part=part, subject=subject)
    if len(listed) != desired.value and not missing:
        summary = f"NVML lists {len(listed)} of {desired.value} GPUs"
        yield failed(summary, f"at {', '.join(sorted(listed))}", desired, Action.REBOOT)
    elif not missing:
        yield passed(f"NVML lists {len(listed)} of {desired.value} GPUs", desired)


def addresses(gpus: Sequence[View] | Unmeasured, key: str) -> list[str] | Unmeasured:
    """PCI addresses of GPUs; when one cannot be read, which is missing is unknown."""
    if isinstance(gpus, Unmeasured):
        return gpus
    known = []
    for gpu in gpus:
        address = gpu.text(key)
        if isinstance(address, Unmeasured):
            return address
        known.append(address)
    return known


@check("identity.same-device")
def same_device(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """NVML and the PCI bus name one device at every GPU's address."""
    del expect
    bus = pci_gpus(state)
    listed = addresses(bus, "address")
    for reading in (bus, listed):
        if isinstance(reading, Unmeasured):
            yield unread("the PCI bus", reading)
            return
    at = dict(zip(listed or [], bus or [], strict=True))

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        address, device = gpu.text("pci_address"), gpu.text("device_id")
        if isinstance(address, Unmeasured) or isinstance(device, Unmeasured):
            reason = next(r for r in (address, device) if isinstance(r, Unmeasured))
            yield unread("its PCI address and device id", reason, gpu)
        elif address not in at:
            expected = rule("on the PCI bus", "NVML lists the GPUs of the bus")
            summary = f"{gpu.subject} is listed by NVML at {address}, where the bus has no GPU"
            yield failed(summary, address, expected, Action.REBOOT, gpu)
        elif isinstance(other := at[address].text("device"), Unmeasured):
            yield unread("its device id on the PCI bus", other, gpu)
        elif device != other:
            expected = rule(other, "the device id on the PCI bus")
            summary = f"{gpu.subject} has device id {device} by NVML and {other} on the PCI bus"
            yield failed(summary, device, expected, Action.REBOOT, gpu)

    yield from each_gpu(state, check_gpu, passed("NVML and the PCI bus name the same devices"))


IDENTITY = ("index", "uuid", "pci_address", "serial", "module_id", "minor")
"""What names one GPU of a node; one value on two of them is unmeasured (plausible.py)."""


@check("identity.unique")
def unique(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every GPU has an index, UUID, serial number, PCI address and module of its own."""
    del expect

    alone = len(state.gpus() or []) == 1  # a card has no module, and nobody to be taken for

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        for key in (key for key in IDENTITY if key != "module_id" or not alone):
            reading = gpu.at(key).raw()
            if isinstance(reading, Unmeasured):
                yield unread(f"its {key.replace('_', ' ')}", reading, gpu)

    return each_gpu(state, check_gpu, passed(f"every GPU has its own {', '.join(IDENTITY)}"))
