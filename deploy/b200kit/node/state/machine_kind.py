"""What kind of machine a node is, from two readings that must agree. Pure.

systemd's word alone is not enough: it goes by names that firmware gives, too, and so may be wrong
both ways. The CPUs' hypervisor flag alone says nothing of containers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from b200kit.node.state.view import StateView, Unmeasured

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


class Kind(Enum):
    """What a node is."""

    BARE_METAL = "bare metal"
    VIRTUAL = "a virtual machine"
    CONTAINER = "a container"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Machine:
    """Its kind, and the two readings in words."""

    kind: Kind
    read: str


def of(state: StateView) -> Machine | Unmeasured:
    """What both readings say together; Unmeasured where one of them is not there."""
    word, flag = state.text("readiness", "virtualization"), state.flag("cpus", "hypervisor")
    if isinstance(word, Unmeasured):
        return word
    known = not state.is_null("cpus", "hypervisor")
    if isinstance(flag, Unmeasured) and known:
        return flag
    flagged = ("a hypervisor" if flag else "no hypervisor") if known else "nothing of hypervisors"
    return Machine(_kind(word, flag if known else None), f"systemd: {word}; the CPUs: {flagged}")


def _kind(word: str, hypervisor: bool | Unmeasured | None) -> Kind:
    if word in CONTAINERS:
        return Kind.CONTAINER
    if word in VIRTUAL and hypervisor is True:
        return Kind.VIRTUAL
    if word == "none" and hypervisor is not True:
        return Kind.BARE_METAL
    return Kind.UNCLEAR
