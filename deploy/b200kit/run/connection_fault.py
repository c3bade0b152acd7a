"""Why a node could not be worked on from here: cause, code, what to do. The one table of it.

A cause is recognised by what OpenSSH (9.2), paramiko and pyinfra, a C library's resolver, the
kernel, sudo and a shell say; the first row that fits is the cause, so what is certain stands first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

_CONSOLE = "on the node's console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"


@dataclass(frozen=True)
class ConnectionFault:
    """One cause: its code in documents, the words by which it is known, what to do about it.

    *node*: it may be the node's, so that a repair of the node may end it; every other one is of
    names, keys and rights, which no reset, reboot or power cycle changes.
    """

    code: str
    signs: re.Pattern[str]
    advice: str
    node: bool


def _row(code: str, signs: str, advice: str, *, node: bool = False) -> ConnectionFault:
    return ConnectionFault(code, re.compile(signs, re.IGNORECASE | re.MULTILINE), advice, node)


FAULTS = (
    _row(
        "host-key-revoked", r"^the \S+ host key for \S+ is marked as revoked",
        "do not log in: your known_hosts revokes this key, so somebody else may answer; look at "
        "the node's console, and give it a new key",
    ),
    _row(
        "host-key-changed",
        r"^@ +warning: remote host identification has changed! +@|host key for .* does not match",
        f"compare its key {_CONSOLE}; where the node was installed again, pin the new key (b200 "
        "init, or ssh-keygen -R and ssh), else somebody else answers",
    ),
    _row(
        "host-key-unknown",
        r"(^|through \S+: )host key verification failed|\bno host key|shows no certificate",
        f"read its key's fingerprint {_CONSOLE}; then pin it: b200 init with --known-hosts, "
        "--console or --fingerprint, or ssh to it, compare and answer yes",
    ),
    _row(
        "sudo-refused", "sudo|not root",
        "give sudo's password (-K), let the user become root without one (NOPASSWD: ALL in "
        "sudoers, _sudo = True in the inventory), or log in as root",
    ),
    _row(
        "name-unresolved",
        "could not resolve|name or service not known|name resolution|no address associated|"
        "nodename nor servname|invalid hostname",
        "correct the name, in the inventory (ssh_hostname) or ssh_config, or let this machine's "
        "DNS or /etc/hosts know it: getent ahosts NAME",
    ),
    _row(
        "key-refused",
        "permission denied|authentication (error|failed)|no authentication methods|"
        "too many authentication failures|private key",
        "put your public key into its user's ~/.ssh/authorized_keys, ssh-add the right one, or "
        "name the right user and key: ssh_user, ssh_key",
    ),
    _row(
        "connection-refused", "connection refused|refuses connections",
        "the machine is up and nothing listens on that port: start sshd on its console, or "
        "correct ssh_port",
        node=True,
    ),
    _row(
        "connection-closed",
        "connection (closed|reset)|closed by remote|error reading ssh protocol|eof error",
        "something listens there and hangs up: journalctl -u ssh on its console says why "
        "(MaxStartups, a firewall, a port that is not sshd's)",
        node=True,
    ),
    _row(
        "no-answer",
        "timed out|timeout|not reached in|no route to host|network is unreachable|host is down|"
        "no answer",
        "look at its power and its console, then at the network and firewalls in between; if it "
        "stays away: b200 repair",
        node=True,
    ),
    _row(
        "no-python", r"python\S*: .*not found|python\S* is (not installed|[0-9])",
        "install Python 3.10 or newer on the node: apt-get install python3",
    ),
)  # fmt: skip
ON_THE_NODE = ("sudo-refused", "no-python")
"""Causes that a node itself tells of, once it was reached; the others nobody on it is believed."""
OTHER = "log in by hand, ssh -v says more; if it stays away: b200 repair"
"""What to do where nobody knows the cause."""
_BY_CODE = {fault.code: fault for fault in FAULTS}


def of(said: str) -> ConnectionFault | None:
    """The cause that an error tells of; None where it tells of none that is known."""
    return next((fault for fault in FAULTS if fault.signs.search(said)), None)


def code_of(said: str) -> str | None:
    """Its code, as documents have it."""
    fault = of(said)
    return fault.code if fault else None


def advice(code: object) -> str:
    """What to do about the cause of a code."""
    fault = _BY_CODE.get(code) if isinstance(code, str) else None
    return fault.advice if fault else OTHER


def is_the_nodes(said: str) -> bool:
    """Whether a repair of the node may end what an error tells of, as far as anybody knows."""
    fault = of(said)
    return fault is None or fault.node


def describe(error: BaseException) -> str:
    """What an error says, with the reasons of those below it that it leaves out.

    paramiko says "Unable to connect to port 22" for every reason, and keeps one for each address.
    """
    text = str(error) or type(error).__name__
    reasons = dict.fromkeys(os.strerror(n) for n in _numbers(error) if isinstance(n, int) and n > 0)
    return "; ".join([text, *(r for r in reasons if r.lower() not in text.lower())])


def _numbers(error: BaseException | None) -> Iterator[int | None]:
    while error is not None:
        yield getattr(error, "errno", None)
        below = getattr(error, "errors", {})
        for each in below.values() if isinstance(below, dict) else ():
            yield getattr(each, "errno", None)
        error = error.__cause__ or error.__context__
