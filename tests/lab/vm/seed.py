"""What a machine is given at its start, as the tar file its first boot unpacks over its disk."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

from tests.lab.paths import PREFIX_LENGTH, VM_NAME, LabPaths, host_address
from tests.lab.seed import FIRMWARE, write_keys, write_scenario
from tests.lab.vm import recipe
from tests.lab.vm.link import MAC
from tests.lab.vm.machine import NUMA_NODES

# On the lab's bridge, which leads nowhere: no route, no resolver.
NETWORK = (
    f"[Match]\nMACAddress={MAC}\n[Network]\nAddress={host_address(VM_NAME)}/{PREFIX_LENGTH}\n"
    "LinkLocalAddressing=no\nIPv6AcceptRA=no\n"
)


def write_seed(lab: LabPaths, scenario: str, seed: Path) -> None:
    """Write the tar file: keys, address, scenario, simulated devices and what puts them in place.

    The address is that of the machine with the lab's own network card; another one keeps its own.
    """
    with tempfile.TemporaryDirectory(prefix="b200-seed-") as scratch:
        root = Path(scratch)
        for folder in ("etc/ssh", "etc/systemd/network", "root/.ssh"):
            (root / folder).mkdir(parents=True)
        (root / "root/.ssh").chmod(0o700)
        write_keys(lab, root, VM_NAME)
        write_scenario(root, scenario, NUMA_NODES)
        (root / "etc/systemd/network/10-lab.network").write_text(NETWORK, encoding="utf-8")
        recipe.write(root, recipe.guest_files() | recipe.DROP_INS)
        shutil.copytree(
            FIRMWARE, root / "usr/lib/b200-lab", ignore=shutil.ignore_patterns("__pycache__")
        )
        _pack(root, seed)


def _pack(root: Path, seed: Path) -> None:
    with tarfile.open(seed, "w") as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                archive.add(path, path.relative_to(root).as_posix(), filter=_as_root)


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whatever account made the file, root owns it in the guest."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
