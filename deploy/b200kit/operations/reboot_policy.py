"""Would a reboot bring the driver, did it, and may another one be tried? Pure.

A reboot of these machines takes many minutes and a wrong one leaves a node without a driver. So
none is made when the kernel that would boot has no module, and none is repeated for a module that
an earlier reboot did not load while nothing changed since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from b200kit.node.packages import module_log
from b200kit.node.state.view import StateView

NOTE = "/var/lib/b200kit/reboot.json"
LOADED = "loaded"


def not_built(state: Mapping[str, Any], driver: str) -> str:
    """Why the kernel that boots next would have no module of this driver; empty when it would.

    What could not be read refuses nothing: the state after the reboot decides.
    """
    built = _built(state)
    if built is None:
        return ""
    kernel = _reading(state, "default_kernel")
    if not isinstance(kernel, str):
        if _any(built, driver):
            return ""
        return f"nvidia {driver} is built for no kernel ({_told(built)}); {_remedy(driver, '')}"
    have = built.get(kernel)
    if have == driver or (have is not None and not isinstance(have, str)):
        return ""
    what = f"nvidia {driver} is not built for kernel {kernel}, which would boot ({_told(built)})"
    return f"{what}; {_remedy(driver, kernel)}"


def not_running(state: Mapping[str, Any], driver: str, log: Sequence[str]) -> str:
    """Why the driver does not run after a reboot; empty when it does, or when that is unknown."""
    loaded = _modules(state).get("nvidia", "")
    if loaded == driver or not (loaded is None or isinstance(loaded, str)) or loaded == "":
        return ""
    running = _reading(state, "running_kernel")
    built = _built(state) or {}
    have = built.get(running) if isinstance(running, str) else None
    what = f"nvidia {driver} is not loaded" if loaded is None else f"nvidia {loaded} is loaded"
    where = f"{what} after the reboot: the node booted kernel {running}"
    if isinstance(running, str) and built and have is None and driver in built.values():
        return f"{where}, and nvidia {driver} is built for {_told(built, driver)}; {_GRUB}"
    if isinstance(running, str) and running in built and have is None:
        return f"{where}, which has no nvidia module; {_remedy(driver, running)}"
    if isinstance(have, str) and have != driver:
        return f"{where}, for which nvidia {have} is built; {_remedy(driver, str(running))}"
    if loaded is not None:
        return f"{where}; an old copy is in its initramfs: update-initramfs -u -k {running}"
    output = module_log.refusal(log)
    return f"{where}, for which it is built; {output or 'its kernel log does not say why'}"


_GRUB = "look at GRUB's default entry (GRUB_DEFAULT, grub-set-default) and at the BMC's boot order"


def _remedy(driver: str, kernel: str) -> str:
    log = f"/var/lib/dkms/nvidia/{driver}/build/make.log"
    steps = f"install linux-headers-{kernel}, then `dkms autoinstall -k {kernel}`"
    if not kernel:
        steps = "install the running kernel's headers, then `dkms autoinstall`"
    return f"{steps}; DKMS's log is {log}"


def facts(state: Mapping[str, Any], driver: str) -> dict[str, Any]:
    """What a reboot's result depends on; while it is the same, another reboot ends the same."""
    return {
        "driver": driver,
        "built_for": _reading(state, "built_for"),
        "default_kernel": _reading(state, "default_kernel"),
    }


def note(state: Mapping[str, Any], driver: str, outcome: str = "") -> dict[str, Any]:
    """The note of a reboot that is about to be made, or has just been."""
    host = state.get("host")
    boot = host.get("boot_id") if isinstance(host, Mapping) else None
    at = state.get("taken_at")
    return {"boot_id": boot, "at": at, "outcome": outcome, "facts": facts(state, driver)}


def took_s(state: Mapping[str, Any]) -> float | None:
    """How long the last reboot of a run took; None where that is not known."""
    return StateView(state).known(float, "notes", "reboot", "took_s")


def spent(state: Mapping[str, Any], driver: str) -> str:
    """When an earlier reboot did not load the module and nothing changed since, else empty."""
    notes = state.get("notes")
    left = notes.get("reboot") if isinstance(notes, Mapping) else None
    if not isinstance(left, Mapping) or left.get("outcome") == LOADED:
        return ""
    boot = StateView(state).known(str, "host", "boot_id")
    if boot is None or left.get("boot_id") == boot:
        return ""
    return str(left.get("at")) if left.get("facts") == facts(state, driver) else ""


def _built(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The module's version by kernel; None when it was not read."""
    built = _reading(state, "built_for")
    known = isinstance(built, Mapping) and "unmeasured" not in built
    return built if known else None


def _any(built: Mapping[str, Any], driver: str) -> bool:
    return any(have == driver or isinstance(have, Mapping) for have in built.values())


def _told(built: Mapping[str, Any], only: str = "") -> str:
    """Kernels with what is built for them, as a person reads it."""
    if only:
        return ", ".join(kernel for kernel, have in built.items() if have == only)
    have = [f"{version} for {kernel}" for kernel, version in built.items() if version]
    return f"built: {', '.join(map(str, have))}" if have else "no module is built"


def _reading(state: Mapping[str, Any], key: str) -> Any:
    part = state.get("driver_module")
    return part.get(key) if isinstance(part, Mapping) else None


def _modules(state: Mapping[str, Any]) -> Mapping[str, Any]:
    modules = state.get("modules")
    return modules if isinstance(modules, Mapping) else {}
