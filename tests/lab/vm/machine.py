"""The virtual machine as QEMU's arguments: pure.

Two NUMA nodes with a processor each, and a PCI Express expander on the right node for every GPU of
the scenario, so that the kernel itself says which node a GPU's address is near. Always emulated
(TCG): an emulated machine is the same everywhere, and a machine in a machine may have no KVM, or
one that hangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QEMU = "qemu-system-x86_64"
MEMORY_MIB = 2048
# A replica of vLLM's CPU build has 2.4 GB, 1 GiB of it for the cache (measured 2026-11-21).
ENGINE_MEMORY_MIB = 8192
NUMA_NODES = 2
DISTANCE = 21
# An Intel processor, as the nodes have. Without ERMS and FSRM the kernel moves memory by words, of
# which an emulator does one at a time, and not by bytes: a boot costs 33 s of CPU instead of 44.
_CPU = "max,vendor=GenuineIntel,erms=off,fsrm=off"
_EMULATOR = ("-accel", "tcg,thread=multi,tb-size=512", "-cpu", _CPU)
_QUIET = ("-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none")
_FIRST_SLOT = 8


MAKE_BOOTABLE = "/usr/lib/b200-vm/make-bootable"


def first_start(
    image: Path, kernel: Path, initrd: Path, console: Path, program: str = MAKE_BOOTABLE
) -> list[str]:
    """Start a disk's kernel directly with one of its programs as PID 1, until power off.

    The program is by default the one that makes the disk bootable.
    """
    append = f"console=ttyS0 root=/dev/vda1 rw quiet mitigations=off norandmaps init={program}"
    return [
        QEMU, *_EMULATOR, *_QUIET, "-machine", "q35", "-m", "1024", "-smp", "2", "-no-reboot",
        "-kernel", str(kernel), "-initrd", str(initrd), "-append", append,
        "-drive", f"id=d0,file={image},format=raw,if=none,cache=unsafe",
        "-device", "virtio-blk-pci,drive=d0", "-serial", f"file:{console}",
    ]  # fmt: skip


def numa(memory_mib: int = MEMORY_MIB) -> list[str]:
    """Two nodes, each with one processor and half the memory."""
    words = ["-m", str(memory_mib), "-smp", f"{NUMA_NODES},sockets={NUMA_NODES},cores=1,threads=1"]
    for node in range(NUMA_NODES):
        words += ["-object", f"memory-backend-ram,id=m{node},size={memory_mib // NUMA_NODES}M"]
        words += ["-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    return [*words, "-numa", f"dist,src=0,dst=1,val={DISTANCE}"]


def expanders(gpus: Iterable[Mapping[str, Any]]) -> list[str]:
    """A PCI Express expander, a root port and a device for each GPU, at the GPU's own address.

    A GPU at 0000:1b:00.0 is the one device below the root port at 0000:1a:00.0, on an expander
    whose bus is 1a and whose NUMA node is the GPU's.
    """
    words: list[str] = []
    for index, gpu in enumerate(gpus):
        bus = int(str(gpu["pci_address"]).split(":")[1], 16)
        node = int(gpu["numa_node"]) % NUMA_NODES
        slot = f"addr={_FIRST_SLOT + index:#x}"
        words += [
            "-device",
            f"pxb-pcie,id=x{index},bus_nr={bus - 1},numa_node={node},bus=pcie.0,{slot}",
        ]
        words += [
            "-device",
            f"pcie-root-port,id=r{index},bus=x{index},chassis={index + 1},slot={index}",
        ]
        words += ["-device", f"pci-testdev,bus=r{index},addr=0x0"]
    return words


@dataclass(frozen=True)
class Disks:
    """The machine's disks, each a qcow2 file: the system's, empty NVMe disks, and somebody's."""

    system: Path
    nvme: Sequence[Path]
    data: Path
    engine: Path | None = None

    def arguments(self) -> list[str]:
        """Serial numbers are B200NVME0 and up, B200DATA, and B200ENGINE, which is read-only."""
        words = _drive("d0", self.system)
        words += ["-device", "virtio-blk-pci,drive=d0,bootindex=0,bus=pcie.0"]
        for number, disk in enumerate(self.nvme):
            words += _drive(f"n{number}", disk)
            words += ["-device", f"nvme,drive=n{number},serial=B200NVME{number},bus=pcie.0"]
        words += _drive("d1", self.data)
        words += ["-device", "virtio-blk-pci,drive=d1,serial=B200DATA,bus=pcie.0"]
        if self.engine:
            words += ["-drive", f"id=e0,file={self.engine},format=raw,if=none,readonly=on"]
            words += ["-device", "virtio-blk-pci,drive=e0,serial=B200ENGINE,bus=pcie.0"]
        return words


def _drive(name: str, file: Path) -> list[str]:
    return ["-drive", f"id={name},file={file},format=qcow2,if=none,cache=unsafe,discard=unmap"]


def command(
    *,
    disks: Disks,
    gpus: Sequence[Mapping[str, Any]],
    network: Sequence[str],
    seed: Path,
    console: Path,
) -> list[str]:
    """The whole command line of a machine that boots from its disk through GRUB."""
    memory = ENGINE_MEMORY_MIB if disks.engine else MEMORY_MIB
    return [
        QEMU, *_EMULATOR, *_QUIET, "-machine", "q35", *numa(memory), *expanders(gpus),
        *disks.arguments(), *network,
        "-object", "rng-random,id=rng,filename=/dev/urandom",
        "-device", "virtio-rng-pci,rng=rng,bus=pcie.0",
        "-fw_cfg", f"name=opt/b200kit/seed,file={seed}",
        "-serial", f"file:{console}",
    ]  # fmt: skip


def tap(interface: str, mac: str) -> list[str]:
    """A network card whose cable is an interface of this machine."""
    return [
        "-netdev", f"tap,id=n0,ifname={interface},script=no,downscript=no",
        "-device", f"virtio-net-pci,netdev=n0,mac={mac},romfile=,bus=pcie.0",
    ]  # fmt: skip
