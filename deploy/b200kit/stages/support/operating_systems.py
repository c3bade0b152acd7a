"""Which operating system a node runs, its processor's name for apt, and its kernels' packages.

The systems themselves are data (b200kit/catalog/systems).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import dropwhile

from b200kit.catalog import systems
from b200kit.catalog.types import System
from b200kit.node.lib.readings import is_digits
from b200kit.node.state.view import StateView

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What the kernel calls a processor (`uname -m`) to what dpkg calls it."""


def refusal(state: Mapping[str, object], wanted: str | None = None) -> str | None:
    """Why nothing may be installed on the node, in one line; None for a supported system.

    *wanted* is the one that the inventory names, if it does: the lock, the packages and the mirror
    are for that one.
    """
    host, found = StateView(state).at("host"), system_of(state)
    if found is None:
        names = ", ".join(system.name for system in systems.supported())
        unknown = f"its operating system ({host.reading('os', 'pretty')})"
        return f"{unknown} is not supported; supported are {names}"
    if found.refused:
        return f"it runs {found.name}: {found.refused}"
    if wanted not in (None, found.key):
        return f'it runs {found.name}, and the inventory says system = "{wanted}"'
    if architecture(state) is None:
        known = " and ".join(ARCHITECTURES)
        return f"its processor is {host.reading('arch')}; the vendor has packages for {known}"
    return None


def system_of(state: Mapping[str, object]) -> System | None:
    """The system the node runs; None for one that is not known, and for one that was not read."""
    observed = StateView(state)
    key = tuple(observed.known(str, "host", "os", name) for name in ("id", "version_id"))
    return next(
        (system for system in systems.load().values() if (system.id, system.version) == key), None
    )


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
    later = kind in system.kernels.hwe and not kernel.startswith(f"{system.kernels.first}.")
    hwe = f"-hwe-{system.version}" if later else ""
    return own, f"linux-headers-{kind}{hwe}"


def extra_modules(system: System, kernel: str) -> tuple[str, ...]:
    """Packages with the rest of a kernel's modules: its own, then those that follow its flavour."""
    known, kind = system.kernels, _flavour(kernel)
    own = (f"linux-modules-extra-{kernel}",) if known.extra_modules else ()
    return (*own, f"linux-modules-extra-{kind}") if kind in known.extra_apart else own


def _flavour(kernel: str) -> str | None:
    """The end of a distribution kernel's release: 6.12.41+deb13-cloud-amd64 is cloud-amd64."""
    words = dropwhile(lambda word: is_digits(word[:1]), kernel.split("-")[1:])
    return "-".join(words) or None
