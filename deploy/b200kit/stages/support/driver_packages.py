"""The lockstep set: every package that belongs to one driver version, as one object. Pure.

Fabric manager, NSCQ, NVSDM and IMEX must equal the driver to the last digit, or the fabric manager
refuses ("interface version X don't match with driver version Y", gpu-operator#544). nvlsm, CUDA
toolkit, NCCL and DCGM have versions of their own. What a hardware needs is in its file
(b200kit/catalog/hardware): nothing else is installed. Blackwell data-centre GPUs run only with the
open kernel modules, so no other flavour is ever asked for.

What an inventory asks for is required. What only some distributions and processors have is
optional: what apt on the node does not have is left out and reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from b200kit.catalog.types import System
from b200kit.inventory.keys.driver_version import branch
from b200kit.inventory.spec import NodeSpec
from b200kit.node.state.drift import Package, same_version
from b200kit.node.state.view import StateView
from b200kit.stages.support import operating_systems

PERSISTENCED = "nvidia-persistenced.service"
DCGM = "nvidia-dcgm.service"

# From branch 580 on the vendor's names carry no branch (NVIDIA/gpu-driver-container
# ubuntu24.04/precompiled/local-repo.sh; Azure/azhpc-images install_nvidia_fabric_manager.sh).
_UNSUFFIXED_FROM = 580
# libnvsdm is built for amd64 only (the same scripts).
_AMD64_ONLY = ("libnvsdm",)
# Without these the fabric manager does not run; the other libraries are for those who monitor it.
_REQUIRED = ("nvidia-fabricmanager", "nvidia-imex")
# Branch 580 is CUDA 13.0 (NVIDIA/deepops: datacenter-gpu-manager-4-cuda13 with driver 580).
_CUDA_13_FROM = 580
# Another flavour of the kernel module, or one the distribution built: the GPUs can have only one.
_OTHER_MODULES = re.compile(
    r"nvidia-(kernel-)?dkms(-[0-9]+)?(-server)?"
    r"|nvidia-kernel-source(-[0-9]+)?(-server)?"
    r"|linux-modules-nvidia-.+"
)
# What the vendor builds with the driver, in the driver's own version.
_FAMILY = re.compile(r"(lib)?nvidia-.+|libcuda1|libnvcuvid1|xserver-xorg-video-nvidia|cuda-drivers")
_DRIVERS_VERSION = re.compile(r"[0-9]{3}\.[0-9]+(\.[0-9]+)?")
_OF_A_BRANCH = re.compile(r"-([0-9]{3})(-|$)")


@dataclass(frozen=True)
class Ground:
    """What of a node decides which packages it needs; the defaults ask for all there may be."""

    architecture: str | None = None
    system: System | None = None
    kernels: tuple[str, ...] = ()
    modules_missing: bool = False


def ground(state: Mapping[str, object]) -> Ground:
    """The ground a node's observation shows."""
    observed = StateView(state)
    return Ground(
        operating_systems.architecture(state),
        operating_systems.system_of(state),
        _kernels(observed),
        any(observed.is_null("modules", name) for name in ("mlx5_ib", "ib_umad")),
    )


def _kernels(observed: StateView) -> tuple[str, ...]:
    """The kernel that runs and, where GRUB says so, the one that boots next."""
    found = (
        observed.known(str, "host", "kernel"),
        observed.known(str, "driver_module", "default_kernel"),
    )
    return tuple(dict.fromkeys(kernel for kernel in found if kernel))


@dataclass(frozen=True)
class Lockstep:
    """One set. *driver* are the packages of exactly its version, the others have their own."""

    version: str
    pinning: Package
    driver: tuple[Package, ...]
    fabric: tuple[Package, ...]
    tools: tuple[Package, ...]
    kernel: tuple[Package, ...]
    units: tuple[str, ...]

    @property
    def packages(self) -> tuple[Package, ...]:
        """All but the pinning package, in the order a plan lists them."""
        return (*self.driver, *self.fabric, *self.tools, *self.kernel)

    def judged(self, missing: Iterable[str] = ()) -> dict[str, str]:
        """Name to exact version of what a verdict asks for, less what apt was found not to have."""
        without = set(missing)
        members = (*self.driver, *self.fabric, *self.tools)
        return {p.name: p.version for p in members if p.version and p.key not in without}

    def left_out(self, missing: Iterable[str] = ()) -> dict[str, str]:
        """Members of the driver's version that the node does without, and why."""
        without = set(missing)
        return {
            package.name: "no repository of the node has it"
            for package in self.driver
            if package.key in without
        }

    def foreign(self, installed: Iterable[str]) -> list[str]:
        """Names on the node that must go: other pins, other names of a member, other modules."""
        desired = {package.name for package in (self.pinning, *self.packages)}
        return [name for name in sorted(installed) if name not in desired and self._rivals(name)]

    def _rivals(self, name: str) -> bool:
        # Not nvidia-open-580: nvidia-open itself may depend on it.
        members = {re.sub(r"-[0-9]+$", "", package.name) for package in self.driver[1:]}
        other_pin = name.startswith("nvidia-driver-pinning-")
        other_name = re.sub(r"-[0-9]+$", "", name) in members
        return other_pin or other_name or bool(_OTHER_MODULES.fullmatch(name))

    def followers(self, installed: Mapping[str, str]) -> list[Package]:
        """The driver's other packages on the node (name to version), which must follow it.

        They came as dependencies, which ask for "this version or newer" in some distributions.
        """
        own = {package.name for package in (self.pinning, *self.packages)}
        return [
            Package(name, self.version, optional=True)
            for name, version in sorted(installed.items())
            if name not in own and self._follows(name, version)
        ]

    def _follows(self, name: str, version: str) -> bool:
        upstream = version.partition(":")[2] or version
        of_branch = _OF_A_BRANCH.search(name)
        return bool(
            _FAMILY.fullmatch(name)
            and _DRIVERS_VERSION.fullmatch(upstream.partition("-")[0])
            and not self._rivals(name)
            and not (of_branch and int(of_branch[1]) != branch(self.version))
            and not same_version(version, self.version)
        )


def lockstep(spec: NodeSpec, expect: Mapping[str, Any], on: Ground | None = None) -> Lockstep:
    """The set for a spec, the "expect" of its hardware file, and the ground it stands on."""
    here = on or Ground()
    return Lockstep(
        version=spec.driver,
        # Optional: our own preferences do the same; the vendor's also knows what it will add.
        pinning=Package(f"nvidia-driver-pinning-{spec.driver}", hold=True, optional=True),
        driver=tuple(_driver(spec.driver, expect, here)),
        fabric=_fabric(spec, expect),
        tools=tuple(_tools(spec, expect)),
        kernel=tuple(_kernel(here, expect)),
        units=(PERSISTENCED, *_words(expect, "fabric.units")),
    )


def _driver(version: str, expect: Mapping[str, Any], here: Ground) -> Iterator[Package]:
    """The driver with its open module, and what the hardware needs in the same version."""
    suffix = "" if branch(version) >= _UNSUFFIXED_FROM else f"-{branch(version)}"
    yield Package("nvidia-open", version, hold=True)
    if not suffix or (here.system and here.system.driver.persistenced == "own package"):
        yield Package("nvidia-persistenced", version, hold=True)
    names = _words(expect, "driver.lockstep")
    # IMEX is for GB-class nodes, whose NVLink leaves the chassis; a B200 must not run it.
    if _flag(expect, "fabric.imex"):
        names = (*names, "nvidia-imex")
    for name in names:
        if here.architecture in (None, "amd64") or name not in _AMD64_ONLY:
            optional = name not in _REQUIRED
            yield Package(f"{name}{suffix}", version, hold=True, optional=optional)


def _fabric(spec: NodeSpec, expect: Mapping[str, Any]) -> tuple[Package, ...]:
    """nvlsm has one name in all branches and versions of its own."""
    needed = _flag(expect, "fabric.nvlsm")
    return (Package("nvlsm", spec.nvlsm, hold=True),) if needed else ()


def _tools(spec: NodeSpec, expect: Mapping[str, Any]) -> Iterator[Package]:
    """CUDA toolkit, NCCL and DCGM where the inventory asks; engines carry their own CUDA."""
    # "ibstat command not found!", says the fabric manager's start script, and ends; the vendor's
    # container installs it, too (NVIDIA/gpu-driver-container ubuntu24.04/precompiled).
    if _flag(expect, "fabric.nvlsm"):
        yield Package("infiniband-diags")
    if spec.cuda_toolkit:
        yield Package(f"cuda-toolkit-{spec.cuda_toolkit}", hold=True)
    if spec.nccl:
        yield Package("libnccl2", spec.nccl, hold=True)
    if spec.dcgm:
        cuda = 13 if branch(spec.driver) >= _CUDA_13_FROM else 12
        for part in ("core", "proprietary", f"cuda{cuda}"):
            yield Package(f"datacenter-gpu-manager-4-{part}", spec.dcgm, hold=True)


def _kernel(here: Ground, expect: Mapping[str, Any]) -> Iterator[Package]:
    """What the kernel needs to build the module, and to reach the switches of NVLink 5."""
    if here.system is None:
        return
    names = [operating_systems.headers(here.system, kernel) for kernel in here.kernels]
    if here.modules_missing and _words(expect, "modules.loaded"):
        names += [operating_systems.extra_modules(here.system, kernel) for kernel in here.kernels]
    for name in dict.fromkeys(name for group in names for name in group):
        yield Package(name, optional=True)


def _words(expect: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(expect[key]["value"]) if key in expect else ()


def _flag(expect: Mapping[str, Any], key: str) -> bool:
    return key in expect and bool(expect[key]["value"])
