"""What somebody did to the node's software before this boot: modules, packages, units, programs.

Everything is done at every boot, and undone by the boot that no longer has it in its scenario;
only a package stays as it was made until it is installed again.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path("/")
FORBIDDEN = "run/modprobe.d/b200-lab.conf"
NVLSM = "opt/nvidia/nvlsm/sbin/nvlsm"
MANAGER_UNIT = "etc/systemd/system/nvidia-fabricmanager.service"
MANAGER_PROGRAM = "usr/bin/nv-fabricmanager"
DPKG_STATUS = "var/lib/dpkg/status"


def forbid_modules(scenario: Mapping[str, Any], root: Path = ROOT) -> None:
    """`modules.forbidden`: lines of modprobe.d that let no one load them."""
    lines = [f"install {name} /bin/false\n" for name in scenario["modules"]["forbidden"]]
    path = root / FORBIDDEN
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# b200kit lab\n" + "".join(lines), encoding="utf-8")


def take_nvlsm_away(scenario: Mapping[str, Any], root: Path = ROOT) -> None:
    """`nvlsm.missing`: its program is gone while its package is installed."""
    program = root / NVLSM
    away = program.with_name("nvlsm.b200-lab-away")
    if scenario["nvlsm"]["missing"] and program.exists():
        program.replace(away)
    elif not scenario["nvlsm"]["missing"] and away.exists():
        away.replace(program)


def mask_manager(scenario: Mapping[str, Any], root: Path = ROOT) -> bool:
    """`fabric_manager: masked`; whether systemd must reload."""
    link, wanted = root / MANAGER_UNIT, bool(scenario["fabric_manager"] == "masked")
    is_masked = link.is_symlink() and str(link.readlink()) == "/dev/null"
    if wanted and not is_masked:
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    elif is_masked and not wanted:
        link.unlink()
    return wanted != is_masked


def change_packages(scenario: Mapping[str, Any], root: Path = ROOT) -> None:
    """`packages`: other versions of installed packages, in dpkg's list and as the program says."""
    status = root / DPKG_STATUS
    for name, version in scenario["packages"].items():
        text = status.read_text(encoding="utf-8")
        entry = re.search(rf"(?ms)^Package: {re.escape(name)}$.*?^Version: (\S+)$", text)
        if entry and entry[1] != version:
            changed = text[: entry.start(1)] + version + text[entry.end(1) :]
            status.write_text(changed, encoding="utf-8")
            _rename(root, name, entry[1].rpartition("-")[0], version.rpartition("-")[0])


def _rename(root: Path, package: str, before: str, version: str) -> None:
    """Let the fabric manager's program be of the other version, too."""
    program = root / MANAGER_PROGRAM
    if package == "nvidia-fabricmanager" and program.is_file():
        text = program.read_text(encoding="utf-8").replace(before, version)
        program.write_text(text, encoding="utf-8")


def do(scenario: Mapping[str, Any]) -> None:
    """All of it, on the node that boots."""
    forbid_modules(scenario)
    take_nvlsm_away(scenario)
    change_packages(scenario)
    if mask_manager(scenario):
        # The boot's transaction knows the unit as it was.
        subprocess.run(["systemctl", "daemon-reload"], check=False, timeout=20)
