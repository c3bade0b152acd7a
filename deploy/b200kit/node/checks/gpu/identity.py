"""Is this the hardware it should be, and is all of it there? By PCI id, never by name."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each, each_gpu, failed, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import OnNode
from b200kit.node.checks.pcie.bus import BusGpu, bus_gpus
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.node.state.view import GpuView, StateView

_TOO_MANY = "the inventory's hardware or gpus is of another machine: correct it"
MOST_MODULES = 64
"""More GPUs than this sit on no baseboard."""


@check("identity.device")
def device(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every NVIDIA GPU on the bus has a PCI id of this hardware; pci-count asks for how many."""
    desired = expect.words("pci.ids")

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        observed = f"{gpu.entry.text('vendor')}:{gpu.entry.text('device')}"
        if observed not in desired.value:
            text = f"{observed}, no {desired.text}: the hardware file does not fit"
            summary = f"{gpu.subject} is {text}"
            yield failed(summary, observed, desired, Action.NONE, gpu, part=gpu.slot)

    gpus = bus_gpus(state) if state.items("pci", "gpus") else []
    return each(gpus, check_gpu, passed(f"{len(gpus)} GPUs with PCI id {desired.text}", desired))


def absent_modules(state: StateView, count: int) -> str:
    """The baseboard modules nobody answers for, "module 5"; empty when that is unknown.

    The modules of an HGX baseboard are numbered from 1 (NVML's module id), so what the remaining
    GPUs do not claim is where the missing one sits, whatever its address was.
    """
    if count > MOST_MODULES:
        return ""
    gpus = state.known_gpus
    known = {gpu.known(int, "module_id") for gpu in gpus} - {None}
    absent = sorted(set(range(1, count + 1)) - known)
    is_known = known and len(known) == len(gpus) and len(absent) + len(known) == count
    return f"module {', '.join(map(str, absent))}" if is_known and absent else ""


@check("identity.pci-count")
def pci_count(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The PCI bus shows as many GPUs as the node must have."""
    desired = rule(expect.gpu_count(), "gpu_count of the inventory")
    gpus = state.items("pci", "gpus")
    summary = f"{len(gpus)} of {desired.value} GPUs are on the PCI bus"
    if len(gpus) == desired.value:
        yield passed(summary, desired)
        return
    where = absent_modules(state, int(desired.value))
    here = ", ".join(str(gpu.reading("address")) for gpu in gpus) or "none"
    text = f"{summary}; {where} is missing" if where else summary
    action, remedy = _to_do(len(gpus), desired, Action.POWER_CYCLE)
    yield failed(text, f"on the bus: {here}", desired, action, part=where, remedy=remedy)


def _to_do(count: int, desired: Expected, where_lost: Action) -> tuple[Action, str]:
    """What brings lost GPUs back; no action takes away those that are too many."""
    return (where_lost, "") if count < desired.value else (Action.NONE, _TOO_MANY)


@check("identity.nvml-count", OnNode(part=""))  # none is listed: the driver, and no GPU
def nvml_count(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """NVML lists every GPU of the PCI bus; a missing one is named by its address."""
    desired = rule(expect.gpu_count(), "gpu_count of the inventory, and the PCI bus")
    listed = [gpu.text("pci_address") for gpu in state.gpus]

    def not_listed() -> Iterator[Finding]:
        bus = [entry.text("address") for entry in state.items("pci", "gpus")]
        for address in (address for address in bus if address not in listed):
            subject = f"the GPU at {address}"
            summary = f"{subject} is on the PCI bus but NVML does not list it"
            read, part = f"NVML lists {len(listed)} GPUs", f"PCI {address}"
            yield failed(summary, read, desired, Action.REBOOT, part=part, subject=subject)

    found = [*within(not_listed())]
    yield from found
    if any(finding.status is Status.FAIL for finding in found):
        return
    summary = f"NVML lists {len(listed)} of {desired.value} GPUs"
    if len(listed) == desired.value:
        yield passed(summary, desired)
    else:
        at = f"at {', '.join(sorted(listed))}" if listed else "none is listed"
        action, remedy = _to_do(len(listed), desired, Action.REBOOT)
        yield failed(summary, at, desired, action, remedy=remedy)


@check("identity.same-device")
def same_device(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """NVML and the PCI bus name one device at every GPU's address."""
    del expect
    at = {entry.text("address"): entry for entry in state.items("pci", "gpus")}

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        address, device = gpu.text("pci_address"), gpu.text("device_id")
        if address not in at:
            expected = rule("on the PCI bus", "NVML lists the GPUs of the bus")
            summary = f"{gpu.subject} is listed by NVML at {address}, where the bus has no GPU"
            yield failed(summary, address, expected, Action.REBOOT, gpu)
        elif device != (other := at[address].text("device")):
            expected = rule(other, "the device id on the PCI bus")
            summary = f"{gpu.subject} has device id {device} by NVML and {other} on the PCI bus"
            yield failed(summary, device, expected, Action.REBOOT, gpu)

    return each_gpu(state, check_gpu, passed("NVML and the PCI bus name the same devices"))


IDENTITY = ("index", "uuid", "pci_address", "serial", "module_id", "minor")
"""What names one GPU of a node; one value on two of them is unmeasured (plausible.py)."""


@check("identity.unique")
def unique(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every GPU has an index, UUID, serial number, PCI address and module of its own."""
    del expect
    # A card has no module, and nobody to be taken for.
    keys = [key for key in IDENTITY if key != "module_id" or len(state.gpus) > 1]

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        for key in keys:
            gpu.raw(key)
        yield from ()  # that each can be read is all

    return each_gpu(state, check_gpu, passed(f"every GPU has its own {', '.join(IDENTITY)}"))
