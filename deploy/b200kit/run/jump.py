"""pyinfra's connections through jump hosts: ssh makes the way, under the rules of run/login.py.

pyinfra (3.10) makes it by itself where ssh_config has a ProxyJump, and there it holds the jump host
to no file of ours: an unknown one is asked about at the terminal. So it is given a socket instead.
"""

from __future__ import annotations

import socket
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from paramiko import SSHException
from pyinfra.api.host import Host
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.sshuserclient import client as ssh_client

from b200kit.run import login as logins
from b200kit.run.login import Login

_LIMIT_S = 30
_read = ssh_client.get_ssh_config
_plain = SSHConnector.make_paramiko_kwargs


@dataclass(frozen=True)
class _Jumpless:
    """An ssh_config for pyinfra, to which the jumps of the user's are none of its business."""

    config: Any

    def lookup(self, hostname: str) -> Any:
        """What is configured for a host."""
        found = self.config.lookup(hostname)
        found.pop("proxyjump", None)
        return found


def _config(file: str | None = None) -> _Jumpless | None:
    found = _read(file)
    return _Jumpless(found) if found else None


def login(host: Host) -> Login:
    """How a host of pyinfra's is reached: by its data, then as ssh_config says."""
    known = logins.of_data(host.name, host.data)
    config = _read(host.data.get("ssh_config_file"))
    configured = config.lookup(known.host) if config else {}
    jump = known.jump or configured.get("proxyjump", "none")
    return replace(
        known,
        host=configured.get("hostname", known.host),
        port=known.port or int(configured.get("port", 22)),
        jump=None if jump == "none" else jump,
        known_hosts=known.known_hosts
        or tuple(str(configured.get("userknownhostsfile", "~/.ssh/known_hosts")).split()),
    )


def connected(way: Login) -> socket.socket:
    """A socket to the sshd of a node behind jump hosts. Raises SSHException."""
    ours, theirs = socket.socketpair()
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        log.touch()
        with theirs:
            pipe = theirs.fileno()
            # Of a session of its own: a Ctrl-C at the terminal ends the run in its own time.
            subprocess.Popen(
                way.hop(Path(folder), f"[{way.host}]:{way.port}"), stdin=pipe, stdout=pipe,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        ours.settimeout(_LIMIT_S)
        try:
            answers = bool(ours.recv(1, socket.MSG_PEEK))
        except TimeoutError:
            answers = False
        said = log.read_text("utf-8", "replace").strip().splitlines()
    if answers:
        ours.settimeout(None)
        return ours
    ours.close()
    raise SSHException(f"through {way.jump}: {(said or ['no answer'])[-1].strip()}")


def _through(connector: SSHConnector) -> dict[str, Any]:
    kwargs = _plain(connector)
    way = login(connector.host)
    if way.jump:
        kwargs["sock"] = connected(way)
    return kwargs


ssh_client.get_ssh_config = _config
SSHConnector.make_paramiko_kwargs = _through  # type: ignore[assignment, method-assign]
