"""Which kernel modules count as loaded, and what loading one shows.

There is no module loader in a container; a module is loaded when /sys/module/NAME says so.
"""

from __future__ import annotations

import os
import platform
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from . import infiniband
from .tree import Tree, write

ROOT = Path("/")
#: The nvidia package's stand-in for nvidia.ko, built for the kernel that runs.
NVIDIA_MODULE = f"lib/modules/{platform.release()}/updates/dkms/nvidia.ko"
_VERSION = re.compile(rb"version=([\d.]+)")
LOAD_DIRS = tuple(f"{at}/modules-load.d" for at in ("etc", "run", "usr/local/lib", "usr/lib"))
PROBE_DIRS = tuple(f"{at}/modprobe.d" for at in ("etc", "run", "usr/local/lib", "usr/lib"))

#: Modules that can be loaded by name, each with those it needs first.
LOADABLE: dict[str, tuple[str, ...]] = {
    "ib_core": (),
    "ib_uverbs": ("ib_core",),
    "ib_umad": ("ib_core",),
    "mlx5_ib": ("ib_core", "ib_uverbs"),
    "nvidia_peermem": ("ib_core",),
}
#: Loaded with the first CUDA process, unless somebody asked for it before.
UVM = "nvidia_uvm"
#: /dev/null's numbers: a machine with real GPUs must not lend them to a simulated node.
NULL_DEVICE = os.makedev(1, 3)


def _lines(directories: Iterable[str], root: Path) -> list[str]:
    """Meaningful lines of all *.conf files; a file in an earlier folder hides its namesakes."""
    files: dict[str, Path] = {}
    for directory in directories:
        for path in sorted((root / directory).glob("*.conf")):
            files.setdefault(path.name, path)
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in files.values())
    lines = (line.strip() for text in texts for line in text.splitlines())
    return [line for line in lines if line and line[0] not in "#;"]


def probe_lines(root: Path = ROOT) -> list[str]:
    """Meaningful lines of modprobe.d."""
    return _lines(PROBE_DIRS, root)


def blacklisted(root: Path = ROOT) -> set[str]:
    """Modules that modprobe.d keeps from being loaded at boot: by name, or by what is run."""
    named = (line.split()[1:2] for line in _lines(PROBE_DIRS, root) if line.startswith("blacklist"))
    return forbidden(root) | {word.replace("-", "_") for words in named for word in words}


def forbidden(root: Path = ROOT) -> set[str]:
    """Modules that nobody can load: modprobe.d runs a command instead (`install NAME /bin/false`).

    A plain blacklist does not stop `modprobe NAME`.
    """
    installs = (line for line in _lines(PROBE_DIRS, root) if line.startswith("install"))
    empty = (line.split() for line in installs if re.search(r"/(false|true)\b", line))
    return {words[1].replace("-", "_") for words in empty if len(words) > 1}


def options(module: str, root: Path = ROOT) -> dict[str, str]:
    """Parameters that modprobe.d gives `module` (`options nvidia NVreg_X=1`)."""
    found: dict[str, str] = {}
    for line in _lines(PROBE_DIRS, root):
        words = line.split()
        if words[:2] == ["options", module]:
            found |= dict(word.split("=", 1) for word in words[2:] if "=" in word)
    return found


def nvidia_version(root: Path = ROOT) -> str | None:
    """Version of the nvidia module built for this kernel, None when none is."""
    path = root / NVIDIA_MODULE
    message = _VERSION.search(path.read_bytes()) if path.is_file() else None
    return message[1].decode() if message else None


def at_boot(root: Path = ROOT, unavailable: Collection[str] = ()) -> dict[str, str | None]:
    """Modules loaded once the node has booted -> their version (None: it has none).

    `unavailable` are those that the kernel comes without.
    """
    kept_out = blacklisted(root)
    loaded: dict[str, str | None] = {"mlx5_core": None}
    listed = {line.replace("-", "_") for line in _lines(LOAD_DIRS, root)}
    for name in sorted(listed):
        if name in LOADABLE and name not in {*kept_out, *unavailable}:
            loaded |= dict.fromkeys((*LOADABLE[name], name))
    version = nvidia_version(root)
    if "nouveau" not in kept_out:
        loaded["nouveau"] = None
    elif version and "nvidia" not in kept_out:
        loaded |= dict.fromkeys(("nvidia", *({UVM} & listed)), version)
    return loaded


def parameters(loaded: Iterable[str], root: Path = ROOT) -> Tree:
    """Files of /sys/module for the parameters that modules were loaded with."""
    if "nvidia_uvm" not in loaded:
        return {}
    given = options("nvidia_uvm", root).get("uvm_disable_hmm", "0")
    return {"nvidia_uvm/parameters/uvm_disable_hmm": "Y" if given in "1yY" else "N"}


def tree(loaded: Mapping[str, str | None]) -> Tree:
    """/sys/module folders of `loaded`."""
    files: Tree = {}
    for name, version in loaded.items():
        files |= {f"{name}/initstate": "live", f"{name}/refcnt": "0"}
        if version:
            files[f"{name}/version"] = version
    return files


def make_nodes(names: Iterable[str], mode: int) -> None:
    """Device files that exist and do nothing."""
    for name in names:
        path = Path("/dev") / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            os.mknod(path, stat.S_IFCHR | mode, NULL_DEVICE)
            path.chmod(mode)


def is_loaded(name: str) -> bool:
    """Whether `name` is loaded now."""
    return Path("/sys/module", name, "initstate").exists()


def show(scenario: Mapping[str, Any], loaded: Mapping[str, str | None]) -> None:
    """Make `loaded` visible: /sys/module, and what those modules create."""
    write(Path("/sys/module"), tree(loaded))
    nics = scenario["nics"]
    if is_loaded("mlx5_ib"):
        write(Path("/sys/class/infiniband"), infiniband.devices(nics))
        if is_loaded("ib_umad"):
            write(Path("/sys/class/infiniband_mad"), infiniband.mads(nics))
            kinds = [f"infiniband/{kind}{i}" for i in range(len(nics)) for kind in ("umad", "issm")]
            make_nodes(kinds, 0o600)
    if "nvidia" in loaded:
        names = [f"nvidia{gpu['index']}" for gpu in scenario["gpus"]]
        make_nodes([*names, "nvidiactl"], 0o666)
    if UVM in loaded:
        make_nodes(["nvidia-uvm"], 0o666)
