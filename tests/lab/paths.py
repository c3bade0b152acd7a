"""Names and places of the lab: its id, its directories, its addresses, its hosts' names.

Several labs, each with an id, can be up side by side. What is expensive and does not change is
shared by all of them; what belongs to one is in a directory of its own. Everything here is pure:
no file is read or written.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

BRIDGE = "labbr0"
BRIDGE_ADDRESS = "10.77.0.1"
PREFIX_LENGTH = 24
MIRROR_PORT = 8780
BMC_PORT = 8790
IPMI_PORT = 8791
MAX_HOSTS = 64
MAX_LABS = 16
ID_VARIABLE = "B200_LAB_ID"
"""Environment variable that names the lab: 0 to 15; without it, 0."""
MODEL_NAME = "tiny-llama"
VM_NAME = "b200-vm"

_HOST_NAME = re.compile(r"b200-([1-9][0-9]?)")


class LabError(RuntimeError):
    """What the lab could not do: one line saying what was seen and what to do."""


@dataclass(frozen=True)
class LabPaths:
    """Where one lab keeps its things: the shared ones in ``root``, its own in ``root/ID``."""

    root: Path
    id: int = 0

    @property
    def own(self) -> Path:
        """Directory of this lab alone; `down` removes it."""
        return self.root / str(self.id)

    @property
    def system(self) -> Path:
        """What labs share of this one's operating system: a link into ``root/systems``."""
        return self.own / "system"

    @property
    def base(self) -> Path:
        """Root file system every host is laid over (never written while hosts run)."""
        return self.system / "base"

    @property
    def base_stamp(self) -> Path:
        """What the base was made by, and when."""
        return self.system / "base.stamp"

    @property
    def hosts(self) -> Path:
        """Parent of the host directories."""
        return self.own / "hosts"

    @property
    def vm(self) -> Path:
        """Directory of the virtual machine: its disks, its seed, console."""
        return self.own / "vm"

    @property
    def mirror(self) -> Path:
        """What all labs serve, each part in a directory that does not change once it is there."""
        return self.root / "mirror"

    @property
    def documents(self) -> Path:
        """Document root of this lab's mirror: apt/, wheels/, models/, mostly links to `mirror`."""
        return self.own / "mirror"

    @property
    def mirror_log(self) -> Path:
        """Who fetched what from this lab's mirror."""
        return self.own / "mirror-access.log"

    @property
    def mirror_key(self) -> Path:
        """Public key of the repositories, ASCII armored."""
        return self.root / "mirror-key.asc"

    @property
    def state_file(self) -> Path:
        """``lab.json``, what other code reads to find the lab."""
        return self.own / "lab.json"

    @property
    def ssh_key(self) -> Path:
        """Private key that opens root on every host."""
        return self.root / "id_ed25519"

    @property
    def host_key(self) -> Path:
        """The hosts' shared throwaway SSH host key."""
        return self.root / "ssh_host_ed25519_key"

    @property
    def known_hosts(self) -> Path:
        """One line a host: address and host key."""
        return self.own / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        """For ``ssh -F``: every host by name."""
        return self.own / "ssh_config"

    @property
    def token(self) -> Path:
        """Bearer token of the model store (test-only secret, mode 0600)."""
        return self.root / "token"

    @property
    def api_key(self) -> Path:
        """Key of the nodes' endpoints (test-only secret, mode 0600)."""
        return self.root / "api_key"

    @property
    def gnupg(self) -> Path:
        """GNUPGHOME of the repositories' throwaway keys."""
        return self.root / "gnupg"

    @property
    def tools(self) -> Path:
        """Virtual environment used to fetch wheels and to train the tokenizer."""
        return self.root / "tools"

    @property
    def bmc(self) -> Path:
        """The Redfish emulator: its certificate, its password, its process."""
        return self.own / "bmc"

    @property
    def host_keys(self) -> Path:
        """Host keys of those hosts that have one of their own, by name."""
        return self.own / "host_keys"

    @property
    def cache(self) -> Path:
        """Downloads and intermediate files."""
        return self.root / "cache"

    @property
    def snapshots(self) -> Path:
        """Disks of hosts that were saved, from which hosts of every lab can start."""
        return self.root / "snapshots"

    def host(self, name: str) -> Path:
        """Directory of one host: upper/ work/ root/ log."""
        if name == VM_NAME:
            return self.vm
        return self.hosts / name


def lab_id() -> int:
    """Return the id of the lab this process works on: ``$B200_LAB_ID``, else 0."""
    word = os.environ.get(ID_VARIABLE) or "0"
    if not word.isdecimal() or int(word) >= MAX_LABS:
        raise LabError(f"{ID_VARIABLE}={word} is not the id of a lab: 0 to {MAX_LABS - 1}")
    return int(word)


def lab_paths() -> LabPaths:
    """Return the paths of the lab this process works on, below ``$B200_LAB`` if that is set.

    Without it, the shared directory is ``~/.cache/b200kit/lab``.
    """
    configured = os.environ.get("B200_LAB")
    root = Path(configured) if configured else Path.home() / ".cache" / "b200kit" / "lab"
    return LabPaths(root.absolute(), lab_id())


def host_name(index: int) -> str:
    """Return the name of host ``index`` (from 1)."""
    if not 1 <= index <= MAX_HOSTS:
        raise LabError(f"host number {index} is not in 1..{MAX_HOSTS}")
    return f"b200-{index}"


def host_index(name: str) -> int:
    """Return the number in a host's name; `LabError` if it is not a lab host's name."""
    match = _HOST_NAME.fullmatch(name)
    if match is None or int(match[1]) > MAX_HOSTS:
        raise LabError(f"{name!r} is not a lab host: names are b200-1 to b200-{MAX_HOSTS}")
    return int(match[1])


def host_address(name: str) -> str:
    """Return the IPv4 address of a host: b200-1 is 10.77.0.11, the virtual machine 10.77.0.10."""
    if name == VM_NAME:
        return "10.77.0.10"
    return f"10.77.0.{10 + host_index(name)}"


def mirror_url() -> str:
    """Return the mirror's URL as hosts see it."""
    return f"http://{BRIDGE_ADDRESS}:{MIRROR_PORT}"
