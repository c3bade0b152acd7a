"""What kind of machine a node is, from two readings that must agree. Pure.

systemd's word alone is not enough: it goes by names that firmware gives, too, and so may be wrong
both ways. The CPUs' hypervisor flag alone says nothing of containers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from b200kit.node.state.view import StateView

CONTAINERS = (
    *("systemd-nspawn", "lxc-libvirt", "lxc", "openvz", "docker", "podman", "rkt", "wsl"),
    *("proot", "pouch", "container-other"),
)
"""systemd-detect-virt(1), `--list` of systemd 252 and 257: what shares its host's kernel."""
VIRTUAL = (
    *("kvm", "amazon", "qemu", "bochs", "xen", "uml", "vmware", "oracle", "microsoft", "zvm"),
    *("parallels", "bhyve", "qnx", "acrn", "powervm", "apple", "sre", "google", "vm-other"),
)
"""The same list: what has a kernel of its own."""


class MachineKind(Enum):
    """What a node is."""

    BARE_METAL = "bare metal"
    VIRTUAL = "a virtual machine"
    CONTAINER = "a container"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class DetectedMachine:
    """Its kind, and the two readings in words."""

    kind: MachineKind
    read: str


_WORD, _FLAG = ("readiness", "virtualization"), ("cpus", "hypervisor")


def is_told(state: StateView) -> bool:
    """Whether a document is new enough to have both readings."""
    if state.is_missing(*_WORD):
        return False
    return state.known(str, *_WORD) is None or not state.is_missing(*_FLAG)


def of(state: StateView) -> DetectedMachine:
    """What both readings say together; raises Unread where one of them is not there."""
    word = state.text(*_WORD)
    flag = None if state.is_null(*_FLAG) else state.flag(*_FLAG)
    words = {None: "nothing of hypervisors", True: "a hypervisor", False: "no hypervisor"}
    return DetectedMachine(_kind(word, flag), f"systemd: {word}; the CPUs: {words[flag]}")


def _kind(word: str, hypervisor: bool | None) -> MachineKind:
    if word in CONTAINERS:
        return MachineKind.CONTAINER
    if word in VIRTUAL and hypervisor is True:
        return MachineKind.VIRTUAL
    if word == "none" and hypervisor is not True:
        return MachineKind.BARE_METAL
    return MachineKind.UNCLEAR
