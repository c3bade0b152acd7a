"""Why a node was not reached, by the words of whoever says so, and what is to be done about it."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api.exceptions import ConnectError

from b200kit.node.state.verdict import Action
from b200kit.operations.recorder import Recorder
from b200kit.report.content.verdict import first_of
from b200kit.reprovision import reachable
from b200kit.run import connection_fault, host_keys
from b200kit.run.remote import Remote, RemoteError
from b200kit.run.session import RUN
from tests.subtests import in_subtests
from tests.unit.nodes import bare

# As OpenSSH 9.2, pyinfra 3.10 with paramiko, sudo 1.9, sudo-rs, dash and bash say it.
SAID = {
    "ssh: Could not resolve hostname n07: Name or service not known": "name-unresolved",
    "ssh: Could not resolve hostname n07: Temporary failure in name resolution": "name-unresolved",
    "Could not resolve hostname ([Errno -2] Name or service not known)": "name-unresolved",
    "ssh: connect to host n07 port 22: Connection refused": "connection-refused",
    "ssh: connect to host n07 port 22: Connection timed out": "no-answer",
    "ssh: connect to host n07 port 22: No route to host": "no-answer",
    "Could not connect (timed out)": "no-answer",
    "not reached in 15 s": "no-answer",
    "ops@n07: Permission denied (publickey).": "key-refused",
    "Authentication error (username=ops, allow_agent=True)": "key-refused",
    "SSH error (No authentication methods available)": "key-refused",
    "Host key verification failed.": "host-key-unknown",
    "no host key of n07 in /s/known_hosts: b200 init --known-hosts writes it": "host-key-unknown",
    "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @": "host-key-changed",
    "SSH host key error (Host key for 10.0.0.7 does not match.)": "host-key-changed",
    "The ED25519 host key for n07 is marked as revoked.": "host-key-revoked",
    "Connection closed by 10.0.0.7 port 22": "connection-closed",
    "kex_exchange_identification: read: Connection reset by peer": "connection-closed",
    "SSH error (Error reading SSH protocol banner)": "connection-closed",
    "sudo of ops: sudo: a password is required": "sudo-refused",
    "sudo: unable to resolve host n07: Name or service not known": "sudo-refused",
    "ops is not in the sudoers file.": "sudo-refused",
    "logged in as ops, who is not root: set _sudo = True": "sudo-refused",
    "python3 is not installed": "no-python",
    "python3 is 3.9; 3.10 or newer is needed": "no-python",
    "sh: 3: exec: python3: not found": "no-python",
    "bash: line 1: python3: command not found": "no-python",
    "Unable to negotiate with 10.0.0.9 port 22: no matching host key type found.": None,
}


@in_subtests(("said", "code"), list(SAID.items()))
def test_cause_is_known_by_what_is_said(said: str, code: str | None) -> None:
    assert connection_fault.code_of(said) == code
    told = connection_fault.advice(code)
    assert ("power" in told) is (code == "no-answer")
    assert first_of({"outcome": "unreachable", "error": said, "cause": code}).action == told


def test_each_cause_has_words_and_an_advice_of_its_own() -> None:
    codes = {fault.code for fault in connection_fault.FAULTS}
    assert codes == {code for code in SAID.values() if code}
    assert len({fault.advice for fault in connection_fault.FAULTS}) == len(codes)


def failing(number: int) -> ConnectError:
    """What pyinfra makes of paramiko's error, which has the reasons by address."""
    below = OSError(None, "Unable to connect to port 22 on 10.0.0.1")
    below.errors = {("10.0.0.1", 22): OSError(number, "x")}  # type: ignore[attr-defined]
    error = ConnectError("Could not connect ([Errno None] Unable to connect to port 22)")
    error.__context__ = below
    return error


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ECONNREFUSED, "connection-refused"), (errno.EHOSTUNREACH, "no-answer")],
)
def test_reason_that_paramiko_keeps_to_itself_is_told(number: int, code: str) -> None:
    assert connection_fault.code_of(connection_fault.describe(failing(number))) == code


@pytest.mark.parametrize(
    ("error", "mended"),
    [
        (failing(errno.EHOSTUNREACH), True),
        (ConnectError("Could not resolve hostname ([Errno -2] Name or service not known)"), False),
        (ConnectError("Authentication error (username=ops)"), False),
    ],
)
def test_repair_takes_up_what_may_be_the_nodes_fault_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ConnectError, mended: bool
) -> None:
    node, _ = bare(tmp_path)
    node.remote = None
    host = SimpleNamespace(name=node.name, connected=False)
    monkeypatch.setattr(RUN, "nodes", {node.name: node})
    monkeypatch.setattr(RUN, "entry", "reprovision.py")
    monkeypatch.setattr(host_keys, "missing", lambda host: "")
    Recorder.host_connect_error(cast(Any, None), cast(Any, host), error)
    assert bool(node.unreachable) is host.connected is mended
    assert (node.record.outcome == "unreachable") is not mended
    assert (node.record.cause is None) is mended


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("no new connection: Could not connect (timed out)", Action.POWER_CYCLE),
        ("no new connection: Could not resolve hostname", Action.NONE),
    ],
)
def test_no_power_is_cut_for_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, action: Action
) -> None:
    node, _ = bare(tmp_path)
    node.unreachable = "then"

    def fails(remote: Remote) -> None:
        raise RemoteError(said)

    monkeypatch.setattr(Remote, "connect_fresh", fails)
    found = reachable.unreachable(node)
    assert found
    assert found.action is action
