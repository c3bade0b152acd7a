"""The simulated devices on a kernel of their own: power on of the virtual machine.

Only what no machine without the hardware can have comes from the scenario: what a GPU's PCI device
and NVML say, and the InfiniBand functions. Kernel, modules, NUMA nodes, command line, settings and
everything else are the machine's. Each GPU stands on a real PCI device at its own address, below a
root port that is real but for the speed of its link; which NUMA node it is near is the kernel's
word. A module counts as loaded when the kernel has loaded it, and shows its devices then.

Who tells of it differs. udev tells of the GPUs' driver, by the kernel's own event, once it has its
devices. `modprobe` tells of the fabric's modules (a line of modprobe.d): they lay mounts, which is
forbidden to what udev runs. A line of modprobe.d would not do for the driver: libkmod runs none for
a module that has a soft dependency (kmod 30, __kmod_module_fill_softdep), and it has one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import infiniband, modules, nvml, pci, site
from .boot import count_boot, set_fabric_mode
from .modprobe import SCENARIO
from .tree import Link, Tree, bind, bind_alone, tmpfs, write

RUN = nvml.RUN
REAL = RUN / "real"
DEVICES = Path("/sys/bus/pci/devices")
HOOKS = Path("/run/modprobe.d/b200-vm.conf")
RULES = Path("/run/udev/rules.d/90-b200-vm.rules")
HOOKED = ("mlx5_ib", "ib_umad")
SHOW = "/usr/lib/b200-vm/power-on show"
RULE = f'ACTION=="add", SUBSYSTEM=="drivers", KERNEL=="nvidia", RUN+="{SHOW} nvidia"\n'
#: What the kernel says of a GPU's place, and of its root port's switches.
KERNELS_WORD = ("numa_node", "local_cpulist", "local_cpus")


def hooks() -> str:
    """Lines of modprobe.d by which a fabric's module that was loaded shows its devices."""
    return "".join(
        f"install {name} /sbin/modprobe --ignore-install {name} $CMDLINE_OPTS && {SHOW} {name}\n"
        for name in HOOKED
    )


def links(folder: Path, real: Path) -> Tree:
    """A link to each entry of a real device's folder, seen at `real` from now on."""
    return {
        entry.name: Link(str(entry.resolve() if entry.is_symlink() else real / entry.name))
        for entry in folder.iterdir()
    }


def port_folder(
    scenario: Mapping[str, Any], gpu: Mapping[str, Any], port: Path, device: Path
) -> Tree:
    """The root port above a GPU, with the GPU in it: real, but for what the scenario says."""
    real = REAL / port.name
    said = pci.gpu(scenario, gpu, None)
    simulated = {name: text for name, text in said.items() if name not in KERNELS_WORD}
    inner = links(device, real / device.name) | simulated
    inner.pop("driver", None)
    outer = links(port, real) | pci.bridge({"pcie": scenario_bridge(scenario, gpu), "acs": False})
    outer |= {"config": Link(str(real / "config"))}
    outer.pop(device.name, None)
    return outer | {f"{device.name}/{name}": content for name, content in inner.items()}


def scenario_bridge(scenario: Mapping[str, Any], gpu: Mapping[str, Any]) -> Mapping[str, Any]:
    """The link of the bridge next to a GPU, as the scenario has it."""
    nearest = gpu["bridges"][-1] if gpu.get("bridges") else None
    plain = {"generation": 5, "max_generation": 5, "width": 16, "max_width": 16}
    return scenario["bridges"][nearest]["pcie"] if nearest else plain


def cover_gpus(scenario: Mapping[str, Any]) -> None:
    """Let the real device at each GPU's address look like the GPU."""
    for gpu in scenario["gpus"]:
        link = DEVICES / gpu["pci_address"]
        if not link.exists():
            continue  # more GPUs than the machine was started with
        device = link.resolve()
        port = device.parent
        folder = RUN / "ports" / port.name
        write(folder, port_folder(scenario, gpu, port, device))
        (REAL / port.name).mkdir(parents=True)
        bind_alone(port, REAL / port.name)
        bind(folder, port)


def cover_bus(scenario: Mapping[str, Any]) -> None:
    """Add simulated GPUs to the bus of a machine that has no devices for them (VirtualBox)."""
    bus: Tree = {entry.name: Link(str(entry.resolve())) for entry in DEVICES.iterdir()}
    for gpu in scenario["gpus"]:
        write(RUN, simulated(scenario, gpu, pci.gpu(scenario, gpu, None)))
        bus[gpu["pci_address"]] = Link(str(RUN / pci.folder(gpu)))
    write(RUN / "bus", bus)
    bind(RUN / "bus", DEVICES)


def simulated(scenario: Mapping[str, Any], place: Mapping[str, Any], device: Tree) -> Tree:
    """The folders of a device that no real one stands for, and of the bridges above it."""
    files = {f"{pci.folder(place)}/{name}": content for name, content in device.items()}
    path = place.get("bridges", [])
    for depth, address in enumerate(path):
        above = pci.folder({"pci_address": address, "bridges": path[:depth]})
        said = pci.bridge(scenario["bridges"][address])
        files |= {f"{above}/{name}": content for name, content in said.items()}
    return files


def functions(scenario: Mapping[str, Any]) -> Tree:
    """/sys/class/infiniband, its devices where they were put at power on."""
    files = infiniband.devices(scenario["nics"])
    places = {nic["name"]: pci.folder(nic) for nic in scenario["nics"]}
    return files | {f"{name}/device": Link(str(RUN / at)) for name, at in places.items()}


def loaded_version(name: str) -> str | None:
    """Version of a module that the kernel has loaded; None when it has not."""
    path = Path("/sys/module", name, "version")
    return path.read_text(encoding="utf-8").strip() if path.is_file() else None


def write_nvml(scenario: Mapping[str, Any], boots: int) -> None:
    """What the NVML stand-in reads: the driver's version is that of the loaded module."""
    driver, options = loaded_version("nvidia"), modules.options("nvidia")
    text = nvml.conf(scenario, driver, options, boots, time.time())
    fresh = RUN / "nvml.conf.new"
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, RUN / "nvml.conf")


def show_class(name: str, files: Tree) -> None:
    """Cover a class the kernel has made by now with the simulated devices, once."""
    target = Path("/sys/class", name)
    marker = RUN / f"class-{name}"
    if target.is_dir() and not marker.exists():
        tmpfs(target)
        write(target, files)
        marker.touch()


def show_fabric(scenario: Mapping[str, Any]) -> None:
    """Make visible what the InfiniBand modules loaded by now create. Nothing a second time."""
    functions_of = scenario["nics"]
    if modules.is_loaded("mlx5_ib"):
        show_class("infiniband", functions(scenario))
    if modules.is_loaded("mlx5_ib") and modules.is_loaded("ib_umad"):
        show_class("infiniband_mad", infiniband.mads(functions_of))
        names = [f"{kind}{i}" for i in range(len(functions_of)) for kind in ("umad", "issm")]
        modules.make_nodes([f"infiniband/{name}" for name in names], 0o600)


def show_driver(scenario: Mapping[str, Any]) -> None:
    """Make visible what the GPUs' driver creates, and let NVML find it."""
    names = [f"nvidia{gpu['index']}" for gpu in scenario["gpus"]]
    modules.make_nodes([*names, "nvidiactl", "nvidia-uvm"], 0o666)
    for gpu in scenario["gpus"]:
        bound(gpu["pci_address"])
    write_nvml(scenario, int((RUN / "boots").read_text(encoding="utf-8")))


def bound(address: str) -> None:
    """The GPU's link to its driver, where the kernel has bound it."""
    folder = DEVICES / address
    by_kernel = Path("/sys/bus/pci/drivers/nvidia", address).exists()
    if folder.exists() and (by_kernel or not REAL.exists()):
        write(folder, {"driver": Link("/sys/bus/pci/drivers/nvidia")})


def power_on(scenario: Mapping[str, Any]) -> None:
    """Everything that is there before a module is loaded."""
    RUN.mkdir(parents=True, exist_ok=True)
    for path, text in ((HOOKS, hooks()), (RULES, RULE)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    site.do(scenario)
    boots = count_boot()
    (RUN / "boots").write_text(f"{boots}\n", encoding="utf-8")
    if any((DEVICES / gpu["pci_address"]).exists() for gpu in scenario["gpus"]):
        cover_gpus(scenario)
    else:
        cover_bus(scenario)
    for nic in scenario["nics"]:
        write(RUN, simulated(scenario, nic, pci.nic(scenario, nic)))
    write_nvml(scenario, boots)
    set_fabric_mode(scenario)


def main() -> None:
    """`show MODULE` after it was loaded; without arguments at power on."""
    scenario = json.loads(SCENARIO.read_text(encoding="utf-8"))
    match sys.argv[1:]:
        case ["show", "nvidia"]:
            show_driver(scenario)
        case ["show", _]:
            show_fabric(scenario)
        case _:
            power_on(scenario)


if __name__ == "__main__":
    main()
