"""The host keys that are pinned for a node: where they are, and how a trusted new one gets there.

Nothing here ever asks a node for its key. Keys come from where docs/reprovision.md says, and the
node must then answer with one of them.
"""

from __future__ import annotations

import fcntl
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

from paramiko.hostkeys import HostKeyEntry, HostKeys
from paramiko.pkey import PKey
from paramiko.ssh_exception import SSHException
from pyinfra.api.host import Host
from pyinfra.connectors.dockerssh import DockerSSHConnector
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.sshuserclient import client as ssh_client

from b200kit.inventory.keys.problem import Problem, show
from b200kit.node.lib import durable_files
from b200kit.run import jump, known_hosts
from b200kit.run.host_certificates import certified

STRICT = "ssh_strict_host_key_checking"
FILE = "ssh_known_hosts_file"
OVER_SSH = (SSHConnector, DockerSSHConnector)


def problems(host: Host) -> Iterator[Problem]:
    """Why *host*, whatever its key, could be believed on first use; pyinfra's own default is that.

    A host that the file holds no key of is no problem here: it is refused when it is connected to.
    """
    if not issubclass(host.connector_cls, OVER_SSH):
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


@cache
def read(files: tuple[str, ...]) -> HostKeys:
    """The pinned keys of known_hosts files as pyinfra's SSH library has them.

    Its own reader ends at the first line that it does not understand, such as one of an authority,
    and takes no notice of a key that is revoked.
    """
    text = _together(map(Path, files))
    revoked = known_hosts.revoked(text)
    lines = [line for line in text.splitlines() if _is_pin(line.strip(), revoked)]
    found = HostKeys()
    with NamedTemporaryFile("w") as readable:
        readable.write("\n".join(lines))
        readable.flush()
        found.load(readable.name)
    return found


def _is_pin(line: str, revoked: Collection[str]) -> bool:
    if not line or line.startswith(("#", "@")) or " ".join(line.split()[1:3]) in revoked:
        return False
    try:
        return HostKeyEntry.from_line(line) is not None
    except (SSHException, ValueError):
        return False


ssh_client.get_host_keys = read


def certify(host: Host) -> None:
    """Believe, for this run, the key that an authority of the pinned file vouches for at *host*.

    Only of a host that the file holds no key of.
    """
    if not issubclass(host.connector_cls, OVER_SSH) or (pins := of(host)).keys():
        return
    known = read(tuple(map(str, pins.files)))
    for key in certified(_together(pins.files), jump.login(host), {pins.host, host.name}):
        kind, blob = key.split()
        known.add(pins.name, kind, PKey.from_type_string(kind, b64decode(blob)))


@dataclass(frozen=True)
class Pins:
    """The known_hosts files that a node's connection is held to, and where it is."""

    files: tuple[Path, ...]
    host: str
    port: int = 22

    @property
    def name(self) -> str:
        """What the node is called in the files."""
        return known_hosts.name_of(self.host, self.port)

    def keys(self) -> tuple[str, ...]:
        """The pinned keys, each "type base64"."""
        return known_hosts.pinned(_together(self.files), [self.name])

    def replace(self, keys: Sequence[str]) -> None:
        """Pin *keys* and no other; each file is replaced whole or not at all."""
        for number, file in enumerate(self.files):
            if number == 0 or known_hosts.pinned(_text(file), [self.name]):
                _rewrite(file, self.name, keys if number == 0 else ())
        read.cache_clear()


def of(host: Host) -> Pins:
    """The pins by which pyinfra connects to *host*: its data, then ssh_config, then the default."""
    way = jump.login(host)
    return Pins(
        tuple(Path(file).expanduser() for file in way.known_hosts), way.host, way.port or 22
    )


def missing(host: Host) -> str:
    """That no key is pinned for *host*, and what brings one; empty where there is one."""
    if not issubclass(host.connector_cls, OVER_SSH):
        return ""
    pins = of(host)
    if read(tuple(map(str, pins.files))).lookup(pins.name):
        return ""
    if known_hosts.authorities(_together(pins.files), [pins.name, host.name]):
        return f"{pins.name} shows no certificate that an authority in {_names(pins)} vouches for"
    how = "b200 init --known-hosts, --console or --fingerprint writes it there"
    return f"no host key of {pins.name} in {_names(pins)}: {how}"


def _names(pins: Pins) -> str:
    return ", ".join(map(str, pins.files))


def _together(files: Iterable[Path]) -> str:
    """Known_hosts files as one: a key that one of them revokes is pinned by none."""
    return "\n".join(map(_text, files))


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
