"""How a node is reached over SSH: the one place that says it, for ssh itself and for pyinfra.

Both are given the same words. What holds for jump hosts, too, stands in an ssh_config of ours,
before the user's own. pyinfra by itself asks a person about a jump host that it does not know, so
ssh makes the way through it for both (run/jump.py).
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

JUMP = "ssh_proxy_jump"
"""Ours, beside pyinfra's keys of an inventory: `[USER@]HOST[:PORT]`, more of them with commas."""
_TYPED = re.compile(
    r"(?:ssh://)?(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.@-]*)@)?"
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?)\]|(?P<host>[A-Za-z0-9_][A-Za-z0-9_.%-]*)"
    r"|(?P<bare>[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?))"
    r"(?::(?P<port>[0-9]{1,5}))?/?"
)
_TARGET = "@TARGET@"
_LONGEST = 255
_SCAN_S = 30
_STRICT = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "VerifyHostKeyDNS": "no",
    "UpdateHostKeys": "no",
    "KnownHostsCommand": "none",
    "NoHostAuthenticationForLocalhost": "no",
    "ControlPath": "none",
    "ConnectTimeout": "10",
    "ServerAliveInterval": "5",
    "LogLevel": "ERROR",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "ControlMaster": "no",
    "RemoteCommand": "none",
    "HashKnownHosts": "no",
}
"""What goes before the user's ssh_config: nobody is asked, nobody new is believed."""
_KERBEROS = {"GSSAPIKeyExchange": "no"}
"""Where ssh knows this word: by it a host proves itself to Kerberos, and none of its keys is looked
at. It is a patch of Debian's and Red Hat's; OpenSSH's own takes it for a mistake.
"""
_OWN = ("~/.ssh/config", "/etc/ssh/ssh_config")


@dataclass(frozen=True)
class Login:
    """What ssh is told; None leaves it to the user's ssh_config.

    *host*: a name, an address or an alias of ssh_config. *known_hosts*: the only files whose keys
    count, in place of the user's. *jump*: as ssh -J.
    """

    host: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    jump: str | None = None
    known_hosts: tuple[str, ...] = ()
    ssh_config: str | None = None

    @property
    def typed(self) -> str:
        """As a person types it."""
        port = "" if self.port is None else f":{self.port}"
        host = f"[{self.host}]" if port and ":" in self.host else self.host
        return f"{self.user}@{host}{port}" if self.user else f"{host}{port}"

    def config(self) -> str:
        """An ssh_config that holds for the node and for every jump host before it."""
        lines = ["Host *", *(f"  {name} {value}" for name, value in _strict().items())]
        if self.known_hosts:
            files = " ".join(f'"{file}"' for file in self.known_hosts)
            lines += [f"  UserKnownHostsFile {files}", "  GlobalKnownHostsFile /dev/null"]
        if self.key:
            lines.append(f'  IdentityFile "{self.key}"')
        own = [self.ssh_config] if self.ssh_config else _OWN
        files_of = (Path(file).expanduser().resolve() for file in own)
        lines += [f'Include "{file}"' for file in files_of if file.is_file()]
        return "\n".join([*lines, ""])

    def words(self, folder: Path) -> list[str]:
        """What follows `ssh` on a command line, the destination last; *folder* takes its files.

        ssh's own words go to `folder / "log"`, those of the ssh to the jump host, too.
        """
        config = folder / "config"
        config.write_text(self.config())
        found = ["-F", str(config), "-E", str(folder / "log"), "-T", *self.asked()]
        if self.jump:
            # Not -J: the ssh that it starts would say why it fails where the node writes, too.
            hop = shlex.join(self.hop(folder, _TARGET)).replace("%", "%%")
            found += ["-o", "ProxyCommand=" + hop.replace(_TARGET, "'[%h]:%p'")]
        return [*found, "--", self.host]

    def asked(self) -> list[str]:
        """User and port, as options of ssh."""
        found = ["-l", self.user] if self.user else []
        return found + (["-p", str(self.port)] if self.port else [])

    def hop(self, folder: Path, target: str) -> list[str]:
        """The command that passes a connection on to *target* from the last jump host."""
        return ["ssh", "-W", target, *self.last_jump().words(folder)]

    def last_jump(self) -> Login:
        """How the last jump host is reached, through those before it."""
        *before, last = jumps(str(self.jump))
        way = ",".join(hop.typed for hop in before) or None
        return replace(self, host=last.host, user=last.user, port=last.port, jump=way)


@cache
def _strict() -> dict[str, str]:
    """What goes before the user's ssh_config, as this machine's ssh understands it."""
    words = [f"-o{name}={value}" for name, value in _KERBEROS.items()]
    asked = ["ssh", "-F", "/dev/null", *words, "-G", "localhost"]
    try:
        done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        return _STRICT
    return _STRICT if done.returncode else {**_STRICT, **_KERBEROS}


def parsed(typed: str) -> Login:
    """A login from `[USER@]HOST[:PORT]` or `ssh://...`; an IPv6 address with a port is `[::1]:22`.

    Raises ValueError.
    """
    found = _TYPED.fullmatch(typed) if len(typed) <= _LONGEST else None
    port = int(found["port"]) if found and found["port"] else None
    if found is None or (port is not None and not 1 <= port <= 65535):
        raise ValueError(f"{typed!r} is not [USER@]HOST[:PORT]; write IPv6 with a port as [::1]:22")
    return Login(found["v6"] or found["host"] or found["bare"], found["user"], port)


def jumps(words: str) -> tuple[Login, ...]:
    """The hosts of a ProxyJump, nearest first; none for "none". Raises ValueError."""
    return () if words == "none" else tuple(parsed(word) for word in words.split(","))


def of_data(name: str, data: Any) -> Login:
    """The login of a node by its inventory's keys, those that pyinfra goes by; *data* has `get`."""
    known = data.get("ssh_known_hosts_file")
    return Login(
        host=str(data.get("ssh_hostname") or name),
        user=data.get("ssh_user"),
        port=data.get("ssh_port"),
        key=_path(data.get("ssh_key")),
        jump=data.get(JUMP),
        known_hosts=() if known is None else (str(_path(known)),),
        ssh_config=_path(data.get("ssh_config_file")),
    )


def keyscan(login: Login, *options: str) -> str:
    """What ssh-keyscan prints of a node; on the last jump host where it is behind one.

    Nobody believes it: it is held against a fingerprint or an authority. Empty where nothing came.
    """
    words = ["ssh-keyscan", *options, "-T", "10", "-p", str(login.port or 22), "--", login.host]
    with TemporaryDirectory() as folder:
        if login.jump:
            words = ["ssh", *login.last_jump().words(Path(folder)), shlex.join(words)]
        return _printed(words)


def _printed(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_SCAN_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _path(value: Any) -> str | None:
    return None if value is None else str(Path(value).expanduser().absolute())
