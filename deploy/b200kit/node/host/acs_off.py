"""`acs-off`: no PCIe bridge above a GPU or a NIC redirects peers to the root, until the next boot.

Clears the whole control register of Access Control Services, as NCCL's user guide does with
`setpci ECAP_ACS+0x6.w=0000`. Exit status: 0 off everywhere, 1 with a line for each that is not.
"""

from __future__ import annotations

import argparse
import errno
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from b200kit.node.facts import pci
from b200kit.node.facts.pci import CONTROL, capability, redirects
from b200kit.node.lib.readings import text

NETWORK_CLASS = "0x02"


def bridges() -> list[Path]:
    """Folders of all bridges above GPUs and network controllers, each once."""
    devices = sorted((pci.SYS / "bus/pci/devices").iterdir())
    ends = [device for device in devices if pci.is_gpu(device) or is_network(device)]
    return list(dict.fromkeys(folder for device in ends for folder in pci.above(device)))


def is_network(device: Path) -> bool:
    """Whether a PCI device is a network controller; one that vanishes meanwhile is not."""
    try:
        return text(device / "class").startswith(NETWORK_CLASS)
    except OSError:
        return False


def switch_off(config: Path) -> bool:
    """Clear a bridge's control register; whether it was set. OSError says why it cannot be."""
    if not redirects(config):
        return False
    descriptor = os.open(config, os.O_RDWR)
    try:
        at = capability(descriptor)
        if at is not None:
            os.pwrite(descriptor, struct.pack("<H", 0), at + CONTROL)
    finally:
        os.close(descriptor)
    if redirects(config):
        raise OSError("its control register kept its value")
    return True


def reason_of(error: OSError) -> str:
    """Why a bridge could not be changed; a locked-down kernel refuses even root."""
    locked = error.errno == errno.EPERM
    return f"{error}; the kernel is locked down (Secure Boot)" if locked else str(error)


def outcomes() -> Iterator[tuple[str, str]]:
    """Each bridge with ACS redirection to "off", or to why it is not."""
    for folder in bridges():
        try:
            if switch_off(folder / "config"):
                yield folder.name, "off"
        except OSError as error:
            yield folder.name, reason_of(error)


def main(args: list[str]) -> int:
    """Switch it off everywhere and report each bridge."""
    argparse.ArgumentParser(prog="acs-off").parse_args(args)
    found = dict(outcomes())
    for name, word in found.items():
        print(f"acs-off: {name}: {word}", file=sys.stdout if word == "off" else sys.stderr)
    if not found:
        print("acs-off: no bridge redirects")
    return int(any(word != "off" for word in found.values()))
