"""Power on: puts the scenario's hardware in place. Run once, early in every boot."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import cures, grub, modules, numa, nvml, pci, procfs, settings, site, swap
from .modprobe import SCENARIO
from .tree import Tree, bind, remounted_writable, tmpfs, write

RUN = nvml.RUN
BOOTS = Path("/var/lib/b200-lab/boots")
FABRIC_MANAGER_CONFIG = Path("/usr/share/nvidia/nvswitch/fabricmanager.cfg")
FIRMWARE = "/usr/lib/b200-lab"
REAL = Path(FIRMWARE, "real")
#: Programs that would act on the machine the node runs on, or need a boot loader of its own.
SYSTEM = ("modprobe", "swapoff", "swapon", "update-grub", "update-initramfs")
STAND_INS = [*(Path("/usr/sbin", name) for name in SYSTEM), Path("/usr/bin/systemd-tmpfiles")]


def count_boot() -> int:
    """Number of this boot since the node's disk was made, from 1."""
    BOOTS.parent.mkdir(parents=True, exist_ok=True)
    number = int(BOOTS.read_text(encoding="utf-8")) + 1 if BOOTS.exists() else 1
    BOOTS.write_text(f"{number}\n", encoding="utf-8")
    return number


def replace_programs() -> None:
    """Put each stand-in where the program is, in one step; the real one is kept where it is new."""
    REAL.mkdir(parents=True, exist_ok=True)
    for path in STAND_INS:
        if path.is_file() and not path.is_symlink():
            shutil.copy2(path, REAL / path.name)
        fresh = path.with_name(f"{path.name}.b200-lab")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(f"{FIRMWARE}/{path.name}")
        os.replace(fresh, path)


def cover_folder(name: str, files: Tree, target: Path) -> None:
    """Show a tree in place of a folder of the machine's own."""
    root = RUN / name
    root.mkdir(parents=True)
    write(root, files)
    bind(root, target)


def open_class_folder() -> None:
    """/sys/class with the same links as before, but writable, so that drivers can add to it."""
    classes = Path("/sys/class")
    links = {
        entry: os.readlink(entry)
        for folder in classes.iterdir()
        for entry in folder.iterdir()
        if entry.is_symlink()
    }
    folders = list(classes.iterdir())
    tmpfs(classes)
    for folder in folders:
        folder.mkdir()
    for entry, target in links.items():
        entry.symlink_to(target)


def show_identity() -> None:
    """/sys/class/dmi/id: a name that says what it is, and the UUID that its controller reports."""
    shown = Path("/sys/class/dmi/id")
    # The machine's own, a link into /sys/devices.
    if shown.is_symlink():
        shown.unlink()
    number = SCENARIO.with_name("product_uuid").read_bytes()
    serial, name = b"B200" + number[:8].upper(), b"simulated (b200kit's lab)\n"
    write(shown, {"product_uuid": number, "product_serial": serial, "product_name": name})


def open_module_folder() -> None:
    """/sys/module, which a container does not have: made in its read-only /sys, then covered."""
    shown = Path("/sys/module")
    if not shown.exists():
        with remounted_writable(Path("/sys")):
            shown.mkdir()
    tmpfs(shown)


def cover_files(name: str, files: Tree, target: Path) -> None:
    """Show each file of a tree over the machine's own of that name, where it has one."""
    root = RUN / name
    write(root, files)
    for file in files:
        if (target / file).exists():
            bind(root / file, target / file)


def open_sysctls(said: Tree) -> None:
    """A writable file over each sysctl a deployment may set.

    It starts with the scenario's value, else with the machine's.
    """
    root = Path("/proc/sys")
    values = {name: root / name for name in procfs.SYSCTLS if (root / name).exists()}
    machine: Tree = {name: path.read_bytes() for name, path in values.items()}
    cover_files("sysctl", machine | said, root)


def show_settings(scenario: Mapping[str, Any]) -> None:
    """Kernel settings, where the machine's kernel has a place for them."""
    cpufreq = Path("/sys/devices/system/cpu/cpufreq")
    if cpufreq.is_dir():
        cover_folder("cpufreq", settings.cpufreq(scenario), cpufreq)
    huge_pages = Path("/sys/kernel/mm/transparent_hugepage")
    cover_files("huge-pages", settings.huge_pages(scenario), huge_pages)
    open_sysctls(settings.sysctls(scenario))


def show_efi(scenario: Mapping[str, Any]) -> None:
    """`image.efi`: variables of the firmware, each a byte after four of attributes."""
    if variables := scenario["image"]["efi"]:
        tmpfs(Path("/sys/firmware"))
        values = {name: bytes([6, 0, 0, 0, value]) for name, value in variables.items()}
        write(Path("/sys/firmware/efi/efivars"), values)


def set_fabric_mode(scenario: Mapping[str, Any], path: Path = FABRIC_MANAGER_CONFIG) -> None:
    """The mode somebody gave the fabric manager before this boot; 0 leaves the package's file."""
    mode = scenario["fabric"]["mode"]
    if mode and path.is_file():
        text = re.sub(r"(?m)^FABRIC_MODE=.*$", f"FABRIC_MODE={mode}", path.read_text("utf-8"))
        path.write_text(text, encoding="utf-8")


def show_proc(
    scenario: Mapping[str, Any], driver: str | None, parameters: Mapping[str, str]
) -> None:
    """/proc/driver, /proc/cmdline and /proc/swaps."""
    cover_folder(
        "proc-driver", procfs.driver_tree(scenario, driver, parameters), Path("/proc/driver")
    )
    cover_files("proc", {"cmdline": grub.cmdline(scenario)}, Path("/proc"))
    cover_files("proc", {"swaps": swap.at_boot(scenario).encode()}, Path("/proc"))


def main() -> None:
    """Read the scenario and put everything in place; an exception fails the unit with its text."""
    scenario = json.loads(SCENARIO.read_text(encoding="utf-8"))
    RUN.mkdir(parents=True, exist_ok=True)
    site.do(scenario)
    loaded = modules.at_boot(unavailable=scenario["modules"]["unavailable"])
    driver, parameters = loaded.get("nvidia"), modules.options("nvidia")
    boots, now = count_boot(), time.time()
    text = nvml.conf(scenario, driver, parameters, boots, now, cures.at_boot(boots, now))
    (RUN / "nvml.conf").write_text(text, encoding="utf-8")
    cures.keep_boot(driver, parameters, boots, now)
    gpu_driver = next((name for name in ("nvidia", "nouveau") if name in loaded), None)
    cover_folder("pci", pci.tree(scenario, gpu_driver), Path("/sys/bus/pci"))
    cover_folder("node", numa.tree(scenario), Path("/sys/devices/system/node"))
    cover_files("cpu", numa.lone_cores(scenario), Path("/sys/devices/system/cpu"))
    open_class_folder()
    show_identity()
    open_module_folder()
    modules.show(scenario, loaded)
    write(Path("/sys/module"), modules.parameters(loaded))
    show_proc(scenario, driver, parameters)
    show_settings(scenario)
    show_efi(scenario)
    set_fabric_mode(scenario)
    replace_programs()
    loaded_names = ", ".join(sorted(loaded))
    print(f"scenario {scenario['name']}, boot {boots}, modules: {loaded_names}")


if __name__ == "__main__":
    main()
