"""What matters before the first change: Secure Boot, headers, and a driver that is there already.

The questions to the kernel are its host's in a container, so there they have no answer (null).
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from b200kit.node.facts import automatic, driver_module
from b200kit.node.lib.readings import attempt, command
from b200kit.node.state.machine_kind import CONTAINERS

ROOT = Path("/")
# Variables with their vendors' GUIDs: UEFI specification 2.10, 3.3; shim's MokSBStateRT is 1 where
# `mokutil --disable-validation` was confirmed, and then the kernel demands no signature, either.
_EFI = "sys/firmware/efi"
_SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_VALIDATION_OFF = "MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23"
# What DKMS signs with: its own key, or on Ubuntu that of shim-signed (dkms 3.0.10).
_KEYS = ("var/lib/dkms/mok.pub", "var/lib/shim-signed/mok/MOK.der")
# nvidia-installer, the vendor's runfile, leaves it; no package has it.
_UNINSTALLER = "usr/bin/nvidia-uninstall"
_LIBRARIES = ("usr/lib/*/libnvidia-ml.so.[0-9]*", "usr/lib*/libnvidia-ml.so.[0-9]*")


def readiness() -> dict[str, Any]:
    """Each reading by itself."""
    machine = attempt(virtualization)
    own_kernel = machine not in CONTAINERS
    return {
        "virtualization": machine,
        "secure_boot": attempt(secure_boot) if own_kernel else None,
        "signing_key_enrolled": attempt(signing_key_enrolled) if own_kernel else None,
        "headers": attempt(headers) if own_kernel else None,
        "driver": attempt(driver),
        "first_boot_done": attempt(automatic.first_boot),
    }


def virtualization() -> str:
    """ "none" on bare metal, else what systemd calls it: "kvm", "systemd-nspawn"."""
    return command(["systemd-detect-virt"], accept=(0, 1)).strip()


def secure_boot() -> bool | None:
    """Whether the kernel takes signed modules only; null on a machine that did not boot by UEFI.

    A variable's file has four bytes of attributes before its value (efivarfs, kernel
    documentation).
    """
    firmware = ROOT / _EFI
    if not firmware.is_dir():
        return None
    variables = firmware / "efivars"
    if not variables.is_dir() or not any(variables.iterdir()):
        raise ValueError("the firmware's variables cannot be read: efivarfs is not mounted")
    return _is_one(variables / _SECURE_BOOT) and not _is_one(variables / _VALIDATION_OFF)


def _is_one(variable: Path) -> bool:
    return variable.is_file() and variable.read_bytes()[4:5] == b"\x01"


def signing_key_enrolled() -> bool | None:
    """Whether the firmware knows the key that DKMS signs with; null where no mokutil can say."""
    keys = [ROOT / key for key in _KEYS if (ROOT / key).is_file()]
    if not (ROOT / "usr/bin/mokutil").exists():
        return None
    # It exits with 1 for one that is enrolled, and says it of a built-in key, too (mokutil 0.6.0).
    test = ["sh", "-c", 'mokutil --test-key "$1" 2>&1', "sh"]
    words = (command([*test, str(key)], accept=(0, 1, 255)) for key in keys)
    return any(re.search("is already enrolled|trusted keyring", said) for said in words)


def headers() -> dict[str, bool]:
    """The running kernel and the one that boots next, each to whether its headers are there."""
    later = attempt(driver_module.default_kernel)
    kernels = {platform.release(), *([later] if isinstance(later, str) else [])}
    return {k: (ROOT / f"lib/modules/{k}/build/Makefile").exists() for k in sorted(kernels)}


def driver() -> dict[str, Any]:
    """A driver's files to the package each is from (null: none), and whether a runfile put them."""
    module = driver_module.module_file(ROOT / "lib/modules" / platform.release())
    # What DKMS builds is in no package.
    modules = [module] if module and "updates/dkms" not in str(module) else []
    found = [path for pattern in _LIBRARIES for path in ROOT.glob(pattern)] + modules
    # Links are ldconfig's, or of Debian's alternatives: no package has them.
    real = {str(path.resolve()) for path in found if path.exists()}
    return {
        "files": owners(sorted(real)),
        "runfile": (ROOT / _UNINSTALLER).exists(),
    }


def owners(paths: Iterable[str]) -> dict[str, str | None]:
    """Path to package, null where none has it.

    Packages name files of /usr without it, too, and the other way round (merged /usr).
    """
    spelt = {path: (path, _other_spelling(path)) for path in paths}
    if not spelt:
        return {}
    asked = dict.fromkeys(name for names in spelt.values() for name in names)
    rows = command(["dpkg-query", "-S", *asked], accept=(0, 1)).splitlines()
    pairs = [row.partition(": ") for row in rows if not row.startswith("diversion ")]
    packages = {path: re.split("[:,]", package)[0] for package, _, path in pairs}
    return {
        path: next((packages[name] for name in names if name in packages), None)
        for path, names in spelt.items()
    }


def _other_spelling(path: str) -> str:
    return path.removeprefix("/usr") if path.startswith("/usr/") else f"/usr{path}"
