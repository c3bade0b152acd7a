"""SSH to the hosts: keys made once, pinned host keys, and waiting for a host to answer."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.lab.paths import LabError, LabPaths, host_address
from tests.lab.shell import run


def ensure_keys(lab: LabPaths) -> None:
    """Make the login key and the hosts' shared host key, unless they are there."""
    lab.root.mkdir(parents=True, exist_ok=True)
    for key, comment in ((lab.ssh_key, "b200-lab"), (lab.host_key, "b200-lab-host")):
        if not key.exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", key])


def host_key(lab: LabPaths, name: str) -> Path:
    """Private host key of a host: its own once it was re-imaged, else the one all share."""
    own = lab.host_keys / name
    return own if own.exists() else lab.host_key


def known_hosts_text(names: Sequence[str], host_key: str) -> str:
    """Return a known_hosts file: one line a host, its address and the key (``type base64``)."""
    key = " ".join(host_key.split()[:2])
    return "".join(f"{host_address(name)} {key}\n" for name in names)


def ssh_config_text(
    lab: LabPaths, names: Sequence[str], users: Mapping[str, str] | None = None
) -> str:
    """Return an ssh_config by which ``ssh -F`` reaches every host by its name.

    *users*: who enters a host that lets no root in.
    """
    blocks = [f"Host {name}\n    HostName {host_address(name)}\n" for name in names]
    blocks += [f"Host {name}\n    User {user}\n" for name, user in (users or {}).items()]
    common = {
        "User": "root",
        "IdentityFile": lab.ssh_key,
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": lab.known_hosts,
        "StrictHostKeyChecking": "yes",
        "BatchMode": "yes",
        "ConnectTimeout": 5,
        "LogLevel": "ERROR",
    }
    return "".join([*blocks, "Host *\n", *(f"    {key} {common[key]}\n" for key in common)])


def reached(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the hosts (entries of ``lab.json``) that are on the lab's own bridge."""
    return [str(entry["name"]) for entry in entries if entry.get("kind") != "vagrant"]


def write_files(
    lab: LabPaths, names: Sequence[str], users: Mapping[str, str] | None = None
) -> None:
    """Write known_hosts and ssh_config for the given hosts."""
    public = {name: host_key(lab, name).with_suffix(".pub").read_text("utf-8") for name in names}
    for path, text in (
        (lab.known_hosts, "".join(known_hosts_text([name], public[name]) for name in names)),
        (lab.ssh_config, ssh_config_text(lab, names, users)),
    ):
        fresh = path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, path)


def ssh(
    lab: LabPaths, name: str, command: str, timeout: float = 60, keep: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a shell command on a host over SSH; the result is returned whatever its exit code.

    ``keep`` leaves the connection open for half a minute, for the next call that keeps it.
    """
    kept = ["-o", "ControlMaster=auto", "-o", f"ControlPath={lab.own}/%n.ctl"]
    kept += ["-o", "ControlPersist=30", "-o", "ServerAliveInterval=5"]
    return run(
        ["ssh", "-F", lab.ssh_config, *(kept if keep else ()), name, command],
        check=False,
        timeout=timeout,
    )


def wait_for_ssh(
    lab: LabPaths, name: str, seconds: float = 300, known_hosts: Path | None = None
) -> None:
    """Return when the host runs a command over SSH; else `LabError` with its log's last line.

    *known_hosts* is a file to hold it to instead of the lab's.
    """
    end = time.monotonic() + seconds
    held_to = ["-o", f"UserKnownHostsFile={known_hosts or lab.known_hosts}"]
    probe = ["ssh", *held_to, "-F", str(lab.ssh_config), name, "true"]
    while True:
        done = run(probe, check=False, timeout=60)
        if done.returncode == 0:
            return
        if time.monotonic() > end:
            said = done.stderr.strip().splitlines()[-1:] or ["nothing"]
            raise LabError(
                f"{name} did not answer over SSH within {seconds:.0f} s ({said[0]});"
                f" its console: {lab.host(name) / 'log'}: {_tail(lab.host(name) / 'log')}"
            )
        time.sleep(0.1)


def _tail(path: Path) -> str:
    """Return the last line of a file, or why there is none."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "empty")
