#!/usr/bin/env python3
"""Power by IPMI over LAN, with ipmitool, for controllers that have no Redfish.

    bmc = {"command": ["b200-ipmi"], "address": "10.20.0.7", "user": "b200kit", "password": {...}}

    b200-ipmi machine NODE      which machine the controller switches, as JSON
    b200-ipmi status NODE       on or off
    b200-ipmi shut-down NODE    ask the operating system to shut down
    b200-ipmi cut NODE          take the power away
    b200-ipmi on NODE           give it back

B200_BMC_ADDRESS (a host, or HOST:PORT), B200_BMC_USER and B200_BMC_PASSWORD say where and who; the
password goes on to ipmitool in its environment, never among its arguments. IPMI is weaker than
Redfish: its answers can be forged. Exit status 0: done; 1: one line on standard error says why not.
"""

import json
import os
import re
import subprocess
import sys

# What ipmitool 1.8.19 says with -v, and what it means; without -v it tells none of them apart
# (tried against OpenIPMI's ipmi_sim, 2026-11-22). The first that is found counts.
CAUSES = {
    "RAKP 2 HMAC is invalid": "refuses {user}'s password: look at bmc.password",
    "unauthorized name": "knows no user {user}: look at bmc.user",
    "Invalid user name": "knows no user {user}: look at bmc.user",
    "Insufficient privilege": "does not let {user} switch the power: look at the user's privilege",
    "Address lookup": "has a name that is not known",
    "Unable to establish": "does not answer; look at its network, and whether IPMI is on",
}
# What it says when the controller answers that there is no such thing: a completion code.
HAS_NONE = ("rsp=0x", "Device not present")
POWER = {"shut-down": "soft", "cut": "off", "on": "on"}


def ipmitool(*words: str, may_lack: bool = False) -> str:
    """What ipmitool prints; empty where the controller has no such thing, and may lack it."""
    address, user = os.environ["B200_BMC_ADDRESS"], os.environ["B200_BMC_USER"]
    # An address with several colons is one of IPv6.
    host, _, port = address.rpartition(":") if address.count(":") == 1 else (address, "", "623")
    # One that does not answer is given up after 10 s.
    where = ["-H", host, "-p", port, "-U", user, "-E", "-N", "2", "-R", "2"]
    secret = {"IPMI_PASSWORD": os.environ["B200_BMC_PASSWORD"]}
    try:
        done = subprocess.run(
            ["ipmitool", "-I", "lanplus", "-v", *where, *words],
            env=os.environ | secret, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=30,
        )  # fmt: skip
    except FileNotFoundError:
        sys.exit("ipmitool is not installed on the controller")
    except subprocess.TimeoutExpired:
        sys.exit(f"{address} does not answer in 30 s")
    said = f"{done.stderr}\n{done.stdout}"
    if done.returncode and may_lack and any(sign in said for sign in HAS_NONE):
        return ""
    if done.returncode:
        lines = [line.strip() for line in said.splitlines() if line.strip()] or ["nothing"]
        known = (f" {cause}" for sign, cause in CAUSES.items() if sign in said)
        sys.exit(address + next(known, f": ipmitool says: {lines[-1]}").replace("{user}", user))
    return done.stdout


match sys.argv[1:]:
    case ["machine", _]:
        # Get System GUID as it is sent: ipmitool guesses the order of its bytes.
        guid = "".join(ipmitool("raw", "0x06", "0x37", may_lack=True).split())
        fru = ipmitool("fru", "print", "0", may_lack=True)
        serial = re.search(r"^\s*Product Serial\s*:\s*(\S.*)$", fru, re.MULTILINE)
        print(json.dumps({"uuid": guid or None, "serial": serial[1] if serial else None}))
    case ["status", _]:
        # "Chassis Power is on"
        print(ipmitool("chassis", "power", "status").split()[-1].lower())
    case [verb, _] if verb in POWER:
        print(ipmitool("chassis", "power", POWER[verb]))
    case _:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
