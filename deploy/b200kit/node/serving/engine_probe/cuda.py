"""Step: CUDA initialises and sees the GPUs of the replica, by the driver's own library alone."""

from __future__ import annotations

import ctypes
import runpy
import uuid
from importlib import metadata

from b200kit.node.serving.engine_probe.asked import ProbeFault, ProbeNotApplicable, ProbeRequest
from b200kit.node.serving.engine_probe.compilers import has
from b200kit.node.serving.libraries import FIRST_DRIVER

LIBRARY = "libcuda.so.1"
# cuda.h, CUresult. Who else can be at fault is inferred from what each is documented for.
_REMEDIES = {
    100: "DeviceAllow= must have char-nvidia, or CUDA_VISIBLE_DEVICES is wrong",
    101: "CUDA_VISIBLE_DEVICES is wrong",
    304: "DeviceAllow= must have char-nvidia and char-nvidia-uvm",
    802: "the fabric manager has not finished (b200-gate.service judges it)",
    803: "the driver's module and libcuda.so.1 are of different versions: reboot",
    804: "the driver's module and libcuda.so.1 are of different versions: reboot",
    999: "DeviceAllow= must have char-nvidia-uvm, and /dev/nvidia-uvm must be there",
}


def cuda(asked: ProbeRequest) -> str:
    """A context can be made on each GPU of the replica, and no other GPU is seen."""
    if not asked.on_gpus:
        raise ProbeNotApplicable("no GPU computes")
    asked_for = [gpu for gpu in asked.environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    remedy = asked.unit("CUDA_VISIBLE_DEVICES must name the replica's GPUs")
    if not asked_for:
        raise ProbeFault("CUDA_VISIBLE_DEVICES is not set", remedy)
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise ProbeFault(str(error), "install the driver's libcuda1: b200 deploy does") from None
    driver = _Driver(library, asked)
    _compare(driver.version())
    seen = driver.uuids()
    if seen != asked_for:
        raise ProbeFault(f"CUDA sees {', '.join(seen)}, not {', '.join(asked_for)}", remedy)
    return f"a context on each of {len(seen)} GPUs"


def _compare(offered: int) -> None:
    """The driver runs the CUDA that torch was built for. Raises Fault."""
    if not has("torch"):
        return
    # This one file alone: torch as a whole takes 4.7 s to load (measured on an H100 node).
    file = metadata.distribution("torch").locate_file("torch/version.py")
    built = str(runpy.run_path(str(file))["cuda"] or "")
    if not built:
        raise ProbeFault(
            "torch is a build for CPUs", "the engine's lock must have a CUDA build of torch"
        )
    major = int(built.partition(".")[0])
    if offered // 1000 < major:
        version = f"{offered // 1000}.{offered % 1000 // 10}"
        first = f"driver {FIRST_DRIVER[major]}" if major in FIRST_DRIVER else "a driver"
        raise ProbeFault(
            f"the driver's {LIBRARY} runs CUDA {version} at most, and torch is built for {built}",
            f"install {first} or newer, or an engine lock for CUDA {offered // 1000}",
        )


class _Driver:
    """The calls of cuda.h that are needed."""

    def __init__(self, library: ctypes.CDLL, asked: ProbeRequest) -> None:
        self._library, self._asked = library, asked

    def version(self) -> int:
        """The newest CUDA that it runs: 13000 is 13.0. Needs no GPU."""
        found = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(found))
        return found.value

    def uuids(self) -> list[str]:
        """The GPUs, each after a context was made on it."""
        self._call("cuInit", 0)
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return [self._uuid(number) for number in range(count.value)]

    def _uuid(self, number: int) -> str:
        device, context = ctypes.c_int(), ctypes.c_void_p()
        found = (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGet", ctypes.byref(device), number)
        self._call("cuDeviceGetUuid", ctypes.byref(found), device)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuDevicePrimaryCtxRelease_v2", device)
        return f"GPU-{uuid.UUID(bytes=bytes(found))}"

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            known = (text.value or b"an unknown error").decode(errors="replace")
            remedy = _REMEDIES.get(code, "the kernel's log may say more: journalctl -k")
            raise ProbeFault(f"{name}: {known} ({code})", self._asked.unit(remedy))
