"""The vendor's packages, simulated: names, version shapes, dependencies, and what they do.

Names follow NVIDIA's rule for branches from 580 on (no branch in the name); `nvlsm` and the
container toolkit have versions of their own. What a package does is in tests/lab/vendor/NAME, and
in the NVML stand-in that libnvidia-compute carries (tests/lab/shim). Nothing is started on
installation.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from tests.lab.hardware import shim_build
from tests.lab.supply import deb, module_build
from tests.lab.supply.deb import Package

VENDOR = Path(__file__).resolve().parents[1] / "vendor"
DKMS_SOURCE = VENDOR.with_name("vendor_dkms")
#: What a node gets instead of dkms, its compiler and headers where its repositories have none.
NO_DKMS = "b200-lab-no-dkms"

#: Driver versions the lab's repository holds: the one deployed, the branch before it (its NVML
#: offers less), a later one of its branch, and a later branch, which is what an unpinned
#: `apt install nvidia-open` takes.
VERSIONS = ["580.126.20", "570.133.20", "580.159.03", "590.48.01"]
NVLSM_VERSION = "2025.10.11-1"
TOOLKIT_VERSION = "1.20.0-1"
#: DCGM's version has an epoch, as the vendor's has.
DCGM_VERSION = "1:4.4.1-1"
NCCL_VERSION = "2.27.7-1+cuda12.9"

#: Packages that carry the driver's version and must all have the same.
LOCKSTEP = (
    "nvidia-open",
    "nvidia-kernel-open-dkms",
    "libnvidia-compute",
    "nvidia-modprobe",
    "nvidia-persistenced",
    "nvidia-fabricmanager",
    "libnvidia-nscq",
    "libnvsdm",
)
#: The vendor's names of fabric manager and switch libraries carry no branch from here on.
UNSUFFIXED_FROM = 580
LIBRARIES = "usr/lib/x86_64-linux-gnu"
#: Enough to fill a small disk; the real file has tens of MB.
FIRMWARE_BYTES = 2 << 20


def from_tree(name: str, version: str, summary: str, *depends: str) -> Package:
    upstream = version.rsplit("-", 1)[0]
    words = {"VERSION": upstream, "UPSTREAM": upstream, "BRANCH": ".".join(upstream.split(".")[:2])}
    tree = VENDOR / name
    return Package(
        name, version, summary, depends, tree=tree if tree.is_dir() else None, words=words
    )


def marker_library(name: str, version: str, soname: str, summary: str) -> Package:
    """A library nobody calls here: its file is a text that says so."""
    files = {f"{LIBRARIES}/{soname}": f"{name} {version}: simulation, not a library\n".encode()}
    return Package(name, version, summary, files=files)


def _compute(version: str) -> Package:
    upstream = version.rsplit("-", 1)[0]
    with tempfile.TemporaryDirectory(prefix="b200-shim-") as scratch:
        library = shim_build.compile_shim(Path(scratch) / "lib", upstream).read_bytes()
    plain = from_tree("libnvidia-compute", version, "NVML library and nvidia-smi", "libc6")
    real = f"libnvidia-ml.so.{upstream}"
    return replace(
        plain,
        files={f"{LIBRARIES}/{real}": library},
        links={f"{LIBRARIES}/{shim_build.SONAME}": real},
    )


def _module(version: str) -> Package:
    """The kernel module with the firmware it brings; its postinst builds for every kernel."""
    upstream = version.rsplit("-", 1)[0]
    plain = from_tree(
        "nvidia-kernel-open-dkms",
        version,
        "open kernel module, loaded at the next boot",
        f"dkms | {NO_DKMS}",
        f"nvidia-modprobe (= {version})",
    )
    return replace(
        plain,
        files={
            **_dkms_source(upstream),
            "usr/lib/modules-nvidia/nvidia.ko": module_build.compile_module(upstream),
            f"usr/lib/firmware/nvidia/{upstream}/gsp_ga10x.bin": bytes(FIRMWARE_BYTES),
        },
    )


def _dkms_source(upstream: str) -> dict[str, bytes]:
    """The module's source, which the real dkms builds where there is one: a virtual machine."""
    return {
        f"usr/src/nvidia-{upstream}/{path.name}": path.read_text(encoding="utf-8")
        .replace("@VERSION@", upstream)
        .encode()
        for path in sorted(DKMS_SOURCE.iterdir())
    }


def driver_packages(driver: str) -> list[Package]:
    """The lockstep set of one driver version ("580.126.20")."""
    version = f"{driver}-1"
    same = f"(= {version})"
    return [
        Package(
            "nvidia-open",
            version,
            "metapackage for the open driver",
            tuple(f"{name} {same}" for name in ("nvidia-kernel-open-dkms", "libnvidia-compute")),
            {"Recommends": f"nvidia-persistenced {same}"},
        ),
        _module(version),
        _compute(version),
        from_tree(
            "nvidia-persistenced", version, "persistence daemon", f"libnvidia-compute {same}"
        ),
        from_tree("nvidia-modprobe", version, "device files of the driver"),
        fabric_manager(driver),
        _switch_library("libnvidia-nscq", driver),
        _switch_library("libnvsdm", driver),
        pinning(driver),
    ]


def fabric_manager(driver: str) -> Package:
    """The fabric manager of a driver."""
    summary = "fabric manager for NVSwitch systems"
    return _named(from_tree("nvidia-fabricmanager", f"{driver}-1", summary), driver)


def _switch_library(name: str, driver: str) -> Package:
    return _named(marker_library(name, f"{driver}-1", f"{name}.so.{driver}", "switches"), driver)


def _named(package: Package, driver: str) -> Package:
    """Under its name in the driver's branch: below 580 the vendor's names of these have it."""
    branch = driver.split(".")[0]
    if int(branch) >= UNSUFFIXED_FROM:
        return package
    return replace(package, name=f"{package.name}-{branch}")


def pinning(wanted: str) -> Package:
    """Keeps the lockstep set at a branch ("580") or at one version ("580.126.20")."""
    name = f"nvidia-driver-pinning-{wanted}"
    version = f"{wanted}.*" if wanted.isdigit() else f"{wanted}-*"
    names = " ".join((*LOCKSTEP, *(f"{name}-{wanted[:3]}" for name in LOCKSTEP)))
    preferences = f"Package: {names}\nPin: version {version}\nPin-Priority: 1000\n"
    return Package(
        name,
        f"{wanted}-1",
        f"apt preferences that keep the driver at {wanted}",
        relations=dict.fromkeys(("Provides", "Conflicts", "Replaces"), "nvidia-driver-pinning"),
        files={f"etc/apt/preferences.d/{name}.pref": preferences.encode()},
    )


def tools() -> list[Package]:
    """CUDA toolkit, NCCL and DCGM: names and versions, and a unit for DCGM."""
    same = f"(= {DCGM_VERSION})"
    core, proprietary = (f"datacenter-gpu-manager-4-{part}" for part in ("core", "proprietary"))
    return [
        Package("cuda-toolkit-12-8", "12.8.1-1", "CUDA toolkit metapackage"),
        marker_library("libnccl2", NCCL_VERSION, "libnccl.so.2", "NCCL"),
        from_tree(core, DCGM_VERSION, "DCGM daemon"),
        Package(proprietary, DCGM_VERSION, "DCGM's closed parts", (f"{core} {same}",)),
        *(
            Package(
                f"datacenter-gpu-manager-4-cuda{cuda}",
                DCGM_VERSION,
                f"DCGM for CUDA {cuda}",
                (f"{core} {same}", f"{proprietary} {same}"),
            )
            for cuda in (12, 13)
        ),
    ]


def other_packages() -> list[Package]:
    """What has a version of its own: the subnet manager and the container toolkit."""
    version, same = TOOLKIT_VERSION, f"(= {TOOLKIT_VERSION})"
    base = from_tree("nvidia-container-toolkit-base", version, "nvidia-ctk and CDI refresh")
    return [
        Package(NO_DKMS, "1", "no dkms: modules are not built but simulated"),
        *tools(),
        from_tree("nvlsm", NVLSM_VERSION, "NVLink subnet manager"),
        marker_library(
            "libnvidia-container1", version, "libnvidia-container.so.1", "runtime library"
        ),
        Package(
            "libnvidia-container-tools",
            version,
            "command-line tools",
            (f"libnvidia-container1 {same}",),
        ),
        replace(base, enable=("nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service")),
        Package(
            "nvidia-container-toolkit",
            version,
            "container runtime hook",
            (f"nvidia-container-toolkit-base {same}", f"libnvidia-container-tools {same}"),
        ),
    ]


def build(outdir: Path, versions: list[str] | None = None) -> list[Path]:
    """Write every .deb for the driver `versions` (default VERSIONS); return their paths."""
    wanted = versions or VERSIONS
    outdir.mkdir(parents=True, exist_ok=True)
    branches = sorted({version.split(".")[0] for version in wanted})
    packages = [package for version in wanted for package in driver_packages(version)]
    packages += [pinning(branch) for branch in branches]
    packages += other_packages()
    return [deb.build(package, outdir) for package in packages]
