"""An IPMI controller for one lab host: OpenIPMI's own simulator, ipmi_sim, before the host's power.

As a program, `python -m tests.lab.power.ipmi NAME get|set|check ...`, it is the simulator's
"chassis_control": what it calls to read and to switch the power.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lab.daemon import Daemon
from tests.lab.lab import say
from tests.lab.own_network import outside
from tests.lab.paths import BRIDGE_ADDRESS, IPMI_PORT, lab_paths
from tests.lab.power.bmc import ROOT, USER
from tests.lab.power.bmc_machines import LabMachines
from tests.lab.power.bmc_system import system_id
from tests.lab.shell import ensure_host_packages

PROGRAMS = {"ipmitool": "ipmitool", "ipmi_sim": "openipmi"}
_LAN = """name "b200-lab"
set_working_mc 0x20
startlan 1
  addr {address} {port}
  priv_limit admin
  allowed_auths_admin none md2 md5 straight
  guid {guid}
endlan
chassis_control "{program}"
user 1 true "" "nobody" user 10 none md2 md5 straight
user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""
_MC = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
mc_enable 0x20
"""


@contextmanager
def controller(name: str) -> Iterator[dict[str, Any]]:
    """A controller while the block runs; yields what an inventory says of it."""
    with outside():
        ensure_host_packages(say, PROGRAMS, {})
    folder = lab_paths().bmc / f"ipmi-{name}"
    (folder / "state").mkdir(mode=0o700, parents=True, exist_ok=True)
    password = folder / "password"
    # IPMI 2.0 takes twenty bytes at most.
    password.write_text("lab-ipmi-password\n")
    _write(folder, name, password.read_text().strip())
    command: list[str | Path] = ["ipmi_sim", "-c", folder / "lan", "-f", folder / "mc"]
    command += ["-s", folder / "state", "-n"]
    daemon = Daemon("ipmi", folder)
    daemon.start(command, _bound, {**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        yield {
            "address": f"{BRIDGE_ADDRESS}:{IPMI_PORT}",
            "user": USER,
            "password": {"file": str(password)},
            "command": [str(ROOT / "contrib/ipmi.py")],
        }
    finally:
        daemon.stop()


def _write(folder: Path, name: str, password: str) -> None:
    """Its configuration, and the program that it calls."""
    program = folder / "chassis"
    call = shlex.join([sys.executable, "-m", "tests.lab.power.ipmi", name])
    program.write_text(f'#!/bin/sh\nexec {call} "$@"\n')
    program.chmod(0o700)
    guid = system_id(name).replace("-", "")
    words = {"guid": guid, "address": BRIDGE_ADDRESS, "port": IPMI_PORT, "user": USER}
    (folder / "lan").write_text(_LAN.format(program=program, password=password, **words))
    (folder / "mc").write_text(_MC)


def _bound() -> bool:
    return f":{IPMI_PORT:04X} " in Path("/proc/net/udp").read_text("ascii")


def chassis(name: str, words: Sequence[str]) -> list[str]:
    """Answer one call: `get power ...`, `set power 0|1`, `set shutdown 1`, `check ...`."""
    machines = LabMachines()
    if words[0] == "get":
        power = int(machines.is_on(name))
        return [f"{word}:{power if word == 'power' else 0}" for word in words[1:]]
    if words[0] == "set":
        for word, value in zip(words[1::2], words[2::2], strict=True):
            wanted = word == "power" and value == "1"
            if word in ("power", "shutdown") and machines.is_on(name) is not wanted:
                how = "on" if wanted else "shut-down" if word == "shutdown" else "cut"
                machines.switch(name, how)
    return []


if __name__ == "__main__":
    for line in chassis(sys.argv[1], sys.argv[2:]):
        print(line)
