"""The host keys that are pinned for a node: where they are, and how a trusted new one gets there.

Nothing here ever asks a node for its key. Keys come from where docs/reprovision.md says, and the
node must then answer with one of them.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyinfra.api.host import Host
from pyinfra.connectors.dockerssh import DockerSSHConnector
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.sshuserclient import client as ssh_client

from b200kit.inventory.keys.problem import Problem, show
from b200kit.node.lib import durable_files
from b200kit.run import known_hosts

STRICT = "ssh_strict_host_key_checking"
FILE = "ssh_known_hosts_file"
_OVER_SSH = (SSHConnector, DockerSSHConnector)


def problems(host: Host) -> Iterator[Problem]:
    """Why *host*, whatever its key, could be believed on first use; pyinfra's own default is that.

    A host that the file holds no key of is no problem here: it is refused when it is connected to.
    """
    if not issubclass(host.connector_cls, _OVER_SSH):
        return
    if (strict := host.data.get(STRICT)) != "yes":
        shown = "is missing" if strict is None else f"is {show(strict)}"
        yield Problem(STRICT, f'{shown}: must be "yes", or the first to answer is believed')
    if not (file := host.data.get(FILE)):
        yield Problem(FILE, "is missing: name the file with the host keys that you pinned")
        return
    try:
        # Its content is for pyinfra, which reads it once: it has the keys of every node.
        with Path(file).expanduser().open("rb") as keys:
            keys.read(1)
    except OSError as error:
        yield Problem(FILE, f"{file} cannot be read on the controller: {error.strerror}")


@dataclass(frozen=True)
class Pins:
    """The known_hosts files that a node's connection is held to, and its name in them."""

    files: tuple[Path, ...]
    name: str

    def keys(self) -> tuple[str, ...]:
        """The pinned keys, each "type base64"."""
        found = (known_hosts.pinned(_text(file), [self.name]) for file in self.files)
        return tuple(dict.fromkeys(key for keys in found for key in keys))

    def replace(self, keys: Sequence[str]) -> None:
        """Pin *keys* and no other; each file is replaced whole or not at all."""
        for number, file in enumerate(self.files):
            if number == 0 or known_hosts.pinned(_text(file), [self.name]):
                _rewrite(file, self.name, keys if number == 0 else ())
        # pyinfra reads each file once a process.
        ssh_client.get_host_keys.cache.clear()


def of(host: Host) -> Pins:
    """The pins by which pyinfra connects to *host*: its data, then ssh_config, then the default."""
    data = host.data
    hostname = str(data.get("ssh_hostname") or host.name)
    config = ssh_client.get_ssh_config(data.get("ssh_config_file"))
    configured = config.lookup(hostname) if config else {}
    given = data.get("ssh_known_hosts_file")
    files = (
        [given]
        if given
        else str(configured.get("userknownhostsfile", "~/.ssh/known_hosts")).split()
    )
    port = int(data.get("ssh_port") or configured.get("port", 22))
    name = known_hosts.name_of(str(configured.get("hostname", hostname)), port)
    return Pins(tuple(Path(file).expanduser() for file in files), name)


def missing(host: Host) -> str:
    """That no key is pinned for *host*, and what brings one; empty where there is one."""
    if not issubclass(host.connector_cls, _OVER_SSH) or (pins := of(host)).keys():
        return ""
    how = "b200 init --known-hosts, --console or --fingerprint writes it there"
    return f"no host key of {pins.name} in {', '.join(map(str, pins.files))}: {how}"


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _rewrite(file: Path, name: str, keys: Sequence[str]) -> None:
    """Replace *file* in one step, with its mode and owner, while no other run of ours does."""
    # What a link points at is what is replaced, not the link.
    target = file.resolve()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(target):
        text = known_hosts.repinned(_text(target), [name], keys)
        if target.exists():
            now = target.stat()
            durable_files.replace(target, text, now.st_mode & 0o777, (now.st_uid, now.st_gid))
        else:
            durable_files.replace(target, text, 0o600)


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    with open(target.with_name(f".{target.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
