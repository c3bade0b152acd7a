"""What the commands of the settings stage do to a machine in memory."""

from __future__ import annotations

import base64
import re
import shlex
from typing import TYPE_CHECKING, Any

from b200kit.stages import settings

if TYPE_CHECKING:
    from tests.fake.machine import Machine

COMMANDS = (
    r"sysctl -q -p |systemd-tmpfiles |update-grub|update-initramfs|swap\.target|^mkdir .*touch "
)
_LIMIT = re.compile(r"DefaultLimit(MEMLOCK|NOFILE|NPROC)=(?:\d+:)?(\w+)")


def lines(machine: Machine, path: str) -> list[str]:
    """The lines of a file of the machine that say something."""
    file = machine.files.get(path)
    text = base64.b64decode(file["content"]).decode() if file else ""
    return [line for line in text.splitlines() if line and not line.startswith(("#", "["))]


def execute(machine: Machine, command: str) -> str:
    """Run one of COMMANDS, step by step."""
    for step in command.split(" && "):
        words = shlex.split(step)
        if words[0] == "sysctl":
            set_sysctls(machine)
        elif words[0] == "systemd-tmpfiles":
            write_values(machine)
        elif words[0] == "update-grub":
            machine.hardware["host"]["grub_cmdline"] = grub_cmdline(machine)
        elif words[0] in ("touch", "rm"):
            for path in words[1:]:
                machine.files.pop(path, None)
                if words[0] == "touch":
                    machine.write(path)
        elif words[:2] in (["systemctl", "mask"], ["systemctl", "unmask"]):
            state = "masked" if words[1] == "mask" else "static"
            machine.units.setdefault(words[2], {})["enabled"] = state
        elif words[0] == "swapoff":
            machine.hardware["kernel"]["swaps"] = []
        elif words[0] == "swapon":
            machine.hardware["kernel"]["swaps"] = ["/swapfile"]
    return ""


def set_sysctls(machine: Machine) -> None:
    """What the drop-in says is in force, but for what the machine's kernel refuses."""
    kernel = machine.hardware["kernel"]
    for line in lines(machine, settings.SYSCTL):
        key, value = line.split(" = ")
        if key == "kernel.numa_balancing":
            kernel["numa_balancing"] = int(value)
        elif key == "vm.nr_hugepages":
            kernel["hugepages"] = int(value)
        elif key not in machine.refuses:
            kernel["sysctls"][key] = value


def write_values(machine: Machine) -> None:
    """What systemd-tmpfiles writes."""
    kernel: dict[str, Any] = machine.hardware["kernel"]
    for line in lines(machine, settings.TMPFILES):
        _, path, *_, value = line.split()
        if path.endswith("scaling_governor"):
            kernel["governors"] = {value: sum(kernel["governors"].values())}
        else:
            kernel["transparent_hugepages"] = value


def reload(machine: Machine) -> None:
    """The service manager reads its configuration again."""
    limits = {"memlock": 8388608, "nofile": 524288, "nproc": 1030000}
    for line in lines(machine, settings.SERVICES):
        found = _LIMIT.match(line)
        assert found, line
        word = found[2]
        limits[found[1].lower()] = -1 if word == "infinity" else int(word)
    machine.hardware["kernel"]["limits"] = limits


def grub_cmdline(machine: Machine) -> str:
    """What update-grub would write into grub.cfg."""
    said = " ".join(lines(machine, settings.GRUB))
    words = said.partition("$GRUB_CMDLINE_LINUX_DEFAULT ")[2].rstrip('"')
    return f"root=/dev/md0 {words}".strip()


def power(machine: Machine, watts: str) -> None:
    """What `node.pyz power-limit` does to the GPUs."""
    gpus: list[dict[str, Any]] = machine.hardware["gpus"]
    for gpu in gpus:
        limit = gpu["power_default_mw"] if watts == "default" else int(watts) * 1000
        gpu |= {"power_limit_mw": limit, "power_enforced_mw": limit}


def started(machine: Machine, unit: str) -> None:
    """What a unit of the settings does once it runs."""
    said = "\n".join(lines(machine, f"/etc/systemd/system/{unit}"))
    found = re.search(r"power-limit (\w+)", said)
    if found and machine.loaded:
        power(machine, found[1])


def boot(machine: Machine) -> None:
    """What a boot brings: the command line, and the drop-ins again."""
    power(machine, "default")
    host = machine.hardware["host"]
    if host.get("grub_cmdline"):
        host["cmdline"] = f"BOOT_IMAGE=/vmlinuz {host['grub_cmdline']}"
    for line in lines(machine, settings.MODPROBE):
        if line == "blacklist nouveau":
            machine.hardware["modules"]["nouveau"] = None
    set_sysctls(machine)
    write_values(machine)
    reload(machine)
