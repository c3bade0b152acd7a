"""What holds of every unit that serves, read back from a running node; any engine."""

from __future__ import annotations

import re
from collections.abc import Iterable

import tests.lab as lab
from tests.e2e.driving import on
from tests.unit.serving.test_replica_units import HARDENED, HARMFUL

EXPOSURE = 2.5
"""The most that systemd-analyze may find; 1.6 was seen on a simulated node, 2026-11-21."""
NOT_SHOWN = {"User", "IPAddressAllow", "IPAddressDeny", "SystemCallFilter"}
LISTENS_OUTSIDE = {"sshd", "systemd"}


def properties(name: str, unit: str) -> dict[str, str]:
    """Every property of a unit as the service manager has it."""
    lines = on(name, f"systemctl show {unit}").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def assert_properties_are_in_force(name: str, unit: str) -> None:
    """The hardening list, of the running unit and not of its file."""
    shown = properties(name, unit)
    for key, value in HARDENED.items():
        if key not in NOT_SHOWN:
            # What is empty is not shown.
            seen = shown.get(key, "")
            assert set(value.split()) <= set(seen.split()), f"{key}={seen}"
    assert shown["User"] == "vllm"
    assert shown.get("CapabilityBoundingSet", "") == ""
    assert shown.get("AmbientCapabilities", "") == ""
    assert "0.0.0.0/0" in shown["IPAddressDeny"]
    assert "127.0.0.0/8" in shown["IPAddressAllow"]
    # What it is made of, not its name: NUMA binding and compilers need these.
    assert {"mbind", "set_mempolicy", "sched_setaffinity"} <= set(shown["SystemCallFilter"].split())
    for key in HARMFUL - {"ProcSubset"}:
        assert shown.get(key, "no") == "no", f"{key}={shown[key]}"
    assert shown["ProcSubset"] == "all"
    stop = shown["TimeoutStopUSec"]
    assert stop not in ("0", "infinity"), stop
    assert (shown["KillMode"], shown["Restart"]) == ("mixed", "always")


def exposure(name: str, unit: str) -> float:
    """What systemd-analyze finds of the running unit, 0 to 10."""
    shown = on(name, f"systemd-analyze security {unit} --no-pager | tail -n 1")
    found = re.search(r"(\d+\.\d)", shown)
    assert found is not None, shown
    return float(found[1])


def outside(name: str) -> dict[str, str]:
    """Listening sockets that are not on loopback, each with who listens."""
    found = {}
    for line in on(name, "ss -H -ltnup").splitlines():
        words = line.split()
        address = words[4]
        if not re.match(r"(127\.|\[::1\]|\[::ffff:127\.)", address):
            who = re.search(r'\(\("([^"]+)"', line)
            found[address] = who[1] if who else "unknown"
    return found


def readers_of_the_key(name: str) -> list[str]:
    """Processes that have the API key in their environment and let another user read it there."""
    script = """
import pathlib, subprocess
key = pathlib.Path("/etc/b200kit/secrets/api_key").read_bytes().strip()
holding, leaking = 0, []
for entry in pathlib.Path("/proc").glob("[0-9]*/environ"):
    try:
        has = key in entry.read_bytes()
    except OSError:
        continue
    if has:
        holding += 1
        cat = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat", str(entry)]
        if subprocess.run(cat, capture_output=True).returncode == 0:
            leaking.append(str(entry))
    if key in (entry.parent / "cmdline").read_bytes():
        leaking.append(str(entry.parent / "cmdline"))
print(holding, *leaking)
"""
    holding, *leaking = lab.run(name, ["python3", "-c", script]).stdout.split()
    assert int(holding) > 0, "no process has the key, so nothing was looked at"
    return leaking


def readable_by_others(name: str, paths: Iterable[str]) -> list[str]:
    """Those of some files that another user can read, even one in root's group.

    By the act, as modes do not say: the group bits of a file with an access list, such as a unit's
    credential since systemd 254 (systemd/systemd#29435), are what the list allows at most.
    """
    other = ["setpriv", "--reuid=65534", "--regid=0", "--clear-groups", "head", "-c1"]
    return [path for path in paths if lab.run(name, [*other, path]).returncode == 0]


def unit_complaints(name: str, *units: str) -> list[str]:
    """What systemd's own checker says of our units."""
    done = lab.run(name, ["systemd-analyze", "verify", "--man=no", *units])
    return [line for line in done.stderr.splitlines() if re.search("b200|vllm", line)]
