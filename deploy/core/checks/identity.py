"""Is this the hardware it should be, and is all of it there? By PCI id, never by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from deploy.core.checks.tools import failed, passed, rule, unread
from deploy.core.expectation import Expectation
from deploy.core.judge import check
from deploy.core.state import StateView, Unmeasured, View
from deploy.core.verdict import Action, Finding


def pci_gpus(state: StateView) -> list[View] | Unmeasured:
    """GPUs on the PCI bus, as the kernel lists them."""
    return state.items("pci", "gpus")


@check("identity.device")
def device(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every NVIDIA GPU on the bus has the PCI id of this hardware."""
    wanted = expect.hardware("pci.id", str)
    gpus = pci_gpus(state)
    if isinstance(gpus, Unmeasured):
        yield unread("the PCI bus", gpus)
        return
    found = [finding for gpu in gpus for finding in wrong_device(gpu, wanted.value, wanted.source)]
    yield from found or [passed(f"{len(gpus)} GPUs with PCI id {wanted.value}", wanted)]


def wrong_device(gpu: View, wanted: str, source: str) -> Iterator[Finding]:
    """A finding when one PCI device is another GPU, or cannot be told."""
    ids = [gpu.text("vendor"), gpu.text("device")]
    address = gpu.text("address") or gpu.path
    for part in ids:
        if isinstance(part, Unmeasured):
            yield unread(f"the PCI id of {address}", part)
            return
    seen = ":".join(map(str, ids))
    if seen != wanted:
        expected = rule(wanted, source)
        summary = f"PCI device {address} is {seen}, not {wanted}: the hardware file does not fit"
        yield failed(summary, seen, expected, Action.NONE, part=f"PCI {address}")


def absent_modules(state: StateView, count: int) -> str:
    """The baseboard modules nobody answers for, "module 5"; empty when that cannot be told.

    The modules of an HGX baseboard are numbered from 1 (NVML's module id), so what the remaining
    GPUs do not claim is where the missing one sits, whatever its address was.
    """
    gpus = state.gpus()
    claimed = [] if isinstance(gpus, Unmeasured) else [gpu.number("module_id") for gpu in gpus]
    known = {number for number in claimed if isinstance(number, int)}
    absent = sorted(set(range(1, count + 1)) - known)
    told = known and len(known) == len(claimed) and len(absent) + len(known) == count
    return f"module {', '.join(map(str, absent))}" if told and absent else ""


@check("identity.pci-count")
def pci_count(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The PCI bus shows as many GPUs as the node must have."""
    wanted = rule(expect.gpu_count(), "gpu_count of the inventory")
    gpus = pci_gpus(state)
    if isinstance(gpus, Unmeasured):
        yield unread("the PCI bus", gpus)
    elif len(gpus) != wanted.value:
        where = absent_modules(state, int(wanted.value))
        summary = f"{len(gpus)} of {wanted.value} GPUs are on the PCI bus"
        here = ", ".join(str(gpu.at("address").raw()) for gpu in gpus) or "none"
        told = f"{summary}; {where} is missing" if where else summary
        yield failed(told, f"on the bus: {here}", wanted, Action.POWER_CYCLE, part=where)
    else:
        yield passed(f"{len(gpus)} of {wanted.value} GPUs are on the PCI bus", wanted)


@check("identity.nvml-count")
def nvml_count(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """NVML lists every GPU of the PCI bus; one it lacks is named by its address."""
    wanted = rule(expect.gpu_count(), "gpu_count of the inventory, and the PCI bus")
    gpus, bus = state.gpus(), pci_gpus(state)
    if isinstance(gpus, Unmeasured):
        yield unread("the GPUs", gpus)
        return
    known = {str(gpu.at("pci_address").raw()) for gpu in gpus}
    addresses = [str(gpu.at("address").raw()) for gpu in bus or []]
    missing = [address for address in addresses if address not in known]
    for address in missing:
        summary = f"the GPU at {address} is on the PCI bus but NVML does not list it"
        read = f"NVML lists {len(gpus)} GPUs"
        yield failed(summary, read, wanted, Action.REBOOT, part=f"PCI {address}")
    if len(gpus) != wanted.value and not missing:
        summary = f"NVML lists {len(gpus)} of {wanted.value} GPUs"
        yield failed(summary, f"at {', '.join(sorted(known))}", wanted, Action.REBOOT)
    elif not missing:
        yield passed(f"NVML lists {len(gpus)} of {wanted.value} GPUs", wanted)


@check("identity.unique")
def unique(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No two GPUs share a UUID or an address; a document where they do is not one node's."""
    del expect
    gpus = state.gpus()
    if isinstance(gpus, Unmeasured):
        yield unread("the GPUs", gpus)
        return
    keys = [(key, gpu.text(key)) for gpu in gpus for key in ("uuid", "pci_address", "serial")]
    unknown = [(key, value) for key, value in keys if isinstance(value, Unmeasured)]
    yield from (unread(f"a GPU's {key}", value) for key, value in unknown)
    twice = [pair for pair, count in Counter(map(str, keys)).items() if count > 1]
    if twice and not unknown:
        expected = rule("one GPU each", "a UUID, serial number or address names one GPU")
        summary = f"two GPUs share an identity: {twice[0]}"
        yield failed(summary, "; ".join(twice), expected, Action.NONE)
    elif not unknown:
        yield passed("every GPU has its own UUID, serial number and address")
