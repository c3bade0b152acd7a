"""The operating systems a node may run, and what the vendor calls their processors. Pure data.

A system is here because its apt, systemd and Python (3.10 and up) are known to do for the stages
and the vendor has packages for it (NVIDIA/gpu-driver-container ubuntu2*/install.sh and
NVIDIA/cloud-native-docs for Ubuntu and Debian 12; NVIDIA's driver installation guide for Debian
13). RHEL and its relatives are not: another package manager, other names, drivers by `dnf module`.
A run there would get halfway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import dropwhile

from b200kit.node.lib.readings import is_digits
from b200kit.node.state.view import StateView


@dataclass(frozen=True)
class System:
    """One supported system, by the ID and VERSION_ID of its os-release."""

    id: str
    version: str
    name: str
    # The kernel it was released with; Ubuntu's later ones ("HWE") have metapackages of their own.
    first_kernel: str

    @property
    def key(self) -> str:
        """As an inventory names it: "ubuntu2204"."""
        return f"{self.id}{self.version.replace('.', '')}"

    @property
    def has_extra_modules(self) -> bool:
        """Whether its kernels keep modules in a package linux-modules-extra-RELEASE."""
        return self.id == "ubuntu"


SUPPORTED = (
    System("ubuntu", "22.04", "Ubuntu 22.04", "5.15"),
    System("ubuntu", "24.04", "Ubuntu 24.04", "6.8"),
    System("debian", "12", "Debian 12", "6.1"),
    System("debian", "13", "Debian 13", "6.12"),
)

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What the kernel calls a processor (`uname -m`) to what dpkg calls it."""


def refusal(state: Mapping[str, object], wanted: str | None = None) -> str | None:
    """Why nothing may be installed on the node, in one line; None for a supported system.

    *wanted* is the one that the inventory names, if it does: the lock, the packages and the mirror
    are for that one.
    """
    host, found = StateView(state).at("host"), system_of(state)
    if found is None:
        names = ", ".join(system.name for system in SUPPORTED)
        unknown = f"its operating system ({host.reading('os', 'pretty')})"
        return f"{unknown} is not supported; supported are {names}"
    if wanted not in (None, found.key):
        return f'it runs {found.name}, and the inventory says system = "{wanted}"'
    if architecture(state) is None:
        known = " and ".join(ARCHITECTURES)
        return f"its processor is {host.reading('arch')}; the vendor has packages for {known}"
    return None


def system_of(state: Mapping[str, object]) -> System | None:
    """The supported system the node runs; None for any other, and for one that was not read."""
    observed = StateView(state)
    key = tuple(observed.known(str, "host", "os", name) for name in ("id", "version_id"))
    return next((system for system in SUPPORTED if (system.id, system.version) == key), None)


def architecture(state: Mapping[str, object]) -> str | None:
    """dpkg's name of the node's processor; None where it was not read or is not supported."""
    return ARCHITECTURES.get(StateView(state).known(str, "host", "arch") or "")


def headers(system: System, kernel: str) -> tuple[str, ...]:
    """Packages with the headers of a kernel, DKMS builds with them: its own, then its flavour's.

    The second follows the kernel when it is upgraded. A kernel that somebody built (6.18.5) has
    none, and often not the first either: then its headers came with it.
    """
    own = f"linux-headers-{kernel}"
    kind = _flavour(kernel)
    if kind is None:
        return (own,)
    later = system.id == "ubuntu" and not kernel.startswith(f"{system.first_kernel}.")
    # Clouds' kernels (aws, azure, ...) have no HWE flavour: they move on by themselves.
    hwe = f"-hwe-{system.version}" if later and kind in ("generic", "lowlatency") else ""
    return own, f"linux-headers-{kind}{hwe}"


def _flavour(kernel: str) -> str | None:
    """The end of a distribution kernel's release: 6.12.41+deb13-cloud-amd64 is cloud-amd64."""
    words = dropwhile(lambda word: is_digits(word[:1]), kernel.split("-")[1:])
    return "-".join(words) or None
