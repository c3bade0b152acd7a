"""What the configuration space of a PCI device says: Access Control Services, payload size.

With P2P Request or Completion Redirect on in a bridge, two GPUs (or a GPU and a NIC) below it reach
each other by way of the root port only: slower, or not at all (NCCL's user guide, troubleshooting,
"PCI Access Control Services").
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

STATUS, HAS_LIST, LIST = 0x06, 0x10, 0x34
"""Offsets of the status register and of the pointer to the first capability, and its bit."""
EXPRESS_ID, DEVICE_CONTROL = 0x10, 8
"""The PCI Express capability, and its device control: bits 5-7 are the payload size in use."""
CONVENTIONAL_BYTES = 256
"""Configuration space without extended capabilities, which start right after it."""
EXTENDED_BYTES = 4096
NO_ANSWER = 0xFFFFFFFF
ACS_ID = 0x000D
CONTROL = 6
"""Offset of the control register in the capability (PCI_ACS_CTRL of linux/pci_regs.h)."""
REDIRECT = 0x4 | 0x8
"""P2P Request Redirect and P2P Completion Redirect."""


def redirects(config: Path) -> bool | None:
    """Whether a bridge redirects peers to the root; null without ACS; OSError when not readable."""
    descriptor = os.open(config, os.O_RDONLY)
    try:
        if os.fstat(descriptor).st_size <= CONVENTIONAL_BYTES:
            return None
        at = capability(descriptor)
        if at is None:
            return None
        (control,) = struct.unpack("<H", read(descriptor, at + CONTROL, 2))
        return bool(control & REDIRECT)
    finally:
        os.close(descriptor)


def payload(config: Path) -> int | None:
    """Bytes a packet of a device may carry; null without PCI Express; OSError when not readable."""
    descriptor = os.open(config, os.O_RDONLY)
    try:
        if not read(descriptor, STATUS, 1)[0] & HAS_LIST:
            return None
        (at,), seen = read(descriptor, LIST, 1), set[int]()
        while (at := at & 0xFC) and at not in seen:
            seen.add(at)
            name, following = read(descriptor, at, 2)
            if name == EXPRESS_ID:
                return 128 << (read(descriptor, at + DEVICE_CONTROL, 1)[0] >> 5 & 7)
            at = following
        return None
    finally:
        os.close(descriptor)


def capability(descriptor: int) -> int | None:
    """Where the ACS capability lies: a list of headers, id in bits 0-15, next one in 20-31."""
    offset, seen = CONVENTIONAL_BYTES, set[int]()
    while CONVENTIONAL_BYTES <= offset < EXTENDED_BYTES and offset not in seen:
        seen.add(offset)
        (header,) = struct.unpack("<I", read(descriptor, offset, 4))
        if header == NO_ANSWER:
            raise OSError("the device does not answer: its configuration space is all ones")
        if header & 0xFFFF == ACS_ID:
            return offset
        offset = header >> 20 & 0xFFC
    return None


def read(descriptor: int, offset: int, size: int) -> bytes:
    """Bytes of configuration space; only root gets more than the first 64."""
    content = os.pread(descriptor, size, offset)
    if len(content) < size:
        raise PermissionError(f"configuration space ends before byte {offset:#x}: it needs root")
    return content
