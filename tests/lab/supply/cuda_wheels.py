"""The wheelhouse of vLLM's CUDA build: 4.3 GB, fetched once, for `make test-cuda-wheels`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.lab.locks import SHARED_S, locked
from tests.lab.own_network import outside
from tests.lab.paths import LabError, LabPaths, mirror_url
from tests.lab.shell import Progress, timed
from tests.lab.supply import systems, wheels
from tests.lab.supply.wheelfile import sha256_of
from tests.lab.supply.wheels import Pin, find_wheels, parse_lock

_SYSTEM = systems.named(os.environ.get(systems.VARIABLE, systems.DEFAULT.name))
LOCK = wheels.LOCK.with_name(f"engine-vllm-cuda-py{_SYSTEM.python.replace('.', '')}.txt")
"""The lock for the Python of the lab's operating system."""
FOLDER = "wheels-cuda" if _SYSTEM == systems.DEFAULT else f"wheels-cuda-{_SYSTEM.name}"
# pip takes no range: every glibc from that of the oldest wheels to the lock's.
_TARGET = (
    f"--python-version={_SYSTEM.python}",
    *(f"--platform=manylinux_2_{glibc}_x86_64" for glibc in range(34, 4, -1)),
    *(f"--platform=manylinux{year}_x86_64" for year in (2014, 2010, 1)),
)
# pip keeps what it fetched only once it has all that it was asked for.
_AT_ONCE = 10


def ensure(lab: LabPaths, progress: Progress) -> str:
    """Have every locked wheel served by this lab's mirror; returns where.

    What was fetched before is kept if its hash is one of the lock's.
    """
    directory, pins = lab.mirror / FOLDER, parse_lock(LOCK.read_text(encoding="utf-8"))
    directory.mkdir(parents=True, exist_ok=True)
    with locked(lab.cache / f"{FOLDER}.lock", SHARED_S, "another lab fetches wheels"), outside():
        if lacking := missing(pins, directory):
            with timed(progress, f"wheels: fetching {len(lacking)} of {len(pins)} for vLLM (CUDA)"):
                _fetch(lab, lacking, directory, progress)
        if still := missing(lacking, directory):
            raise LabError(f"{still[0].name} {still[0].version} was not fetched as locked")
    served = lab.documents / FOLDER
    if not served.is_symlink():
        served.symlink_to(directory)
    return f"{mirror_url()}/{FOLDER}/"


def missing(pins: Sequence[Pin], directory: Path) -> list[Pin]:
    """Return the pins without a wheel of a locked hash; a wheel of another hash is removed."""
    lacking = []
    for pin, wheel in find_wheels(pins, directory).items():
        if wheel is not None and f"sha256:{sha256_of(wheel)}" in pin.hashes:
            continue
        if wheel is not None:
            wheel.unlink()
        lacking.append(pin)
    return lacking


def _fetch(lab: LabPaths, lacking: Sequence[Pin], directory: Path, progress: Progress) -> None:
    python, wanted = wheels.ensure_tools(lab), lab.cache / f"{FOLDER}.txt"
    for start in range(0, len(lacking), _AT_ONCE):
        some = lacking[start : start + _AT_ONCE]
        wanted.write_text("".join(f"{pin.line()}\n" for pin in some), encoding="utf-8")
        wheels.download(python, wanted, directory, len(some), progress, _environment(), _TARGET)
        progress(f"wheels: {start + len(some)} of {len(lacking)}")


def _environment() -> dict[str, str]:
    """pip without configuration of this machine's own: the hashes say what may come."""
    chosen = ("PIP_CONSTRAINT", "PIP_FIND_LINKS")
    kept = {name: value for name, value in os.environ.items() if name not in chosen}
    return kept | {"PIP_CONFIG_FILE": os.devnull}
