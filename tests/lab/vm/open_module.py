"""NVIDIA's own open kernel module, branch 550, built by Debian's dkms for a kernel of Debian 12.

The source and NVIDIA's object file are those of Debian 13's package (contrib). They are built in a
guest's tree at this machine's speed, as an emulated processor would take an hour, and loaded on the
guest's own kernel. That kernel is the older one of Debian 12's archive: neither 550.163.01 nor
Debian 12's 535.261.03 compiles for the newest kernels (6.1.0-56, 6.12.117+deb13), whose
`pci_resize_resource` has one argument more (seen 2026-11-23).
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.lab.mounts import OWN_MOUNTS, remove_tree
from tests.lab.paths import LabError, LabPaths
from tests.lab.shell import Progress, run, timed
from tests.lab.supply.debian import debian_sources
from tests.lab.supply.debian_package import unpack
from tests.lab.supply.systems import DEFAULT, NEWER
from tests.lab.vm import disk, recipe
from tests.lab.vm.machine import first_start

PACKAGE, MODULE, VERSION = "nvidia-open-kernel-dkms", "nvidia-current-open", "550.163.01"
KERNEL = "6.1.0-47-amd64"
PROGRAM = "/load"
_PACKAGES = (
    *("dkms", "initramfs-tools", "kmod", "mokutil", "openssl", "python3", "zstd"),
    *(f"linux-image-{KERNEL}", f"linux-headers-{KERNEL}"),
)
_BUILD = f"dkms add -m {MODULE} -v {VERSION} && dkms install -m {MODULE} -v {VERSION} -k {KERNEL}"
_MIB = 3072
_BOOT_S = 300


def ensure_tree(lab: LabPaths, progress: Progress) -> Path:
    """Return a guest's tree with the module built and installed; made once (5 minutes)."""
    asked = json.dumps([_PACKAGES, _BUILD, recipe.EARLY_FILES])
    tree = lab.cache / f"open-module-{hashlib.sha256(asked.encode()).hexdigest()[:12]}"
    if tree.is_dir():
        return tree
    fresh, package = tree.with_suffix(".new"), tree.with_suffix(".package")
    for leftover in (fresh, package):
        remove_tree(leftover)
    with timed(progress, f"vm: {DEFAULT.title} with headers of {KERNEL}"):
        _bootstrap(fresh)
    with timed(progress, f"vm: {PACKAGE} of {NEWER.title}"):
        files = unpack(package, NEWER, "contrib", PACKAGE)
        run(["cp", "-a", f"{files}/.", fresh])
    with timed(progress, f"vm: dkms builds {MODULE} {VERSION}"):
        built = inside(fresh, _BUILD, timeout=3600)
    if built.returncode != 0:
        said = "; ".join(line for line in built.stdout.splitlines() if line.startswith("Error!"))
        raise LabError(f"dkms did not build {MODULE} for {KERNEL}: {said}")
    remove_tree(package)
    return fresh.rename(tree)


def _bootstrap(tree: Path) -> None:
    early = tree.with_suffix(".early")
    recipe.write(early, recipe.EARLY_FILES)
    words = ["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root"]
    words += [f"--include={','.join(_PACKAGES)}", "--dpkgopt=force-unsafe-io"]
    words += ['--aptopt=APT::Install-Recommends "false"', f'--setup-hook=cp -a "{early}/." "$1/"']
    sources = debian_sources(DEFAULT)
    run([*OWN_MOUNTS, *words, DEFAULT.suite, tree, *sources], timeout=1800)
    remove_tree(early)


def inside(tree: Path, script: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run a shell line in a tree, at this machine's speed; standard error is with the output."""
    mounted = 'mount -t proc proc "$0/proc" && exec chroot "$0" sh -c "$1" 2>&1'
    words = [*OWN_MOUNTS, "sh", "-c", mounted, str(tree), script]
    return run(words, check=False, timeout=timeout, env={"LC_ALL": "C.UTF-8"})


def boot(tree: Path, folder: Path, files: Mapping[str, bytes]) -> str:
    """Start the tree's kernel with ``PROGRAM``, one of *files*, and return its console.

    *folder* is where the disk and the tree's copy are made.
    """
    copy, image, console = folder / "root", folder / "disk.raw", folder / "console"
    run(["cp", "-a", "--reflink=auto", tree, copy], timeout=600)
    for name, content in files.items():
        path = copy / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755)
    disk.make_image(image, copy, _MIB)
    kernel, initrd = (copy / f"boot/{name}-{KERNEL}" for name in ("vmlinuz", "initrd.img"))
    run(first_start(image, kernel, initrd, console, PROGRAM), timeout=_BOOT_S)
    remove_tree(copy)
    image.unlink()
    return console.read_text(encoding="utf-8", errors="replace")
