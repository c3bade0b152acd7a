"""A node that prints what it should not costs its own run and neither memory nor a traceback."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import paramiko
import pytest

from b200kit.run import connection_fault, login, look
from tests.fake.forked import Forked
from tests.fake.hostile_ssh import HostileNode, JumpHost, megabytes
from tests.fake.test_cli_bad_input import GOOD
from tests.messages import assert_message, lines_with

STATE = b'{"schema": "b200kit/node-state/1", "gpus": %s}\n'
MOST_BYTES = 500_000_000  # pyinfra alone takes 80 MB
FLOODS: dict[str, Callable[[], Iterator[bytes]]] = {
    "line ends": lambda: megabytes(60, b"\n"),
    "one line without an end": lambda: megabytes(60, b"x"),
    "short lines": lambda: megabytes(60, b"b200\n"),
    "an observation that is too long": lambda: iter([STATE % (b"[" + b"[]," * 2_000_000)]),
}
GARBAGE: dict[str, Callable[[], Iterator[bytes]]] = {
    "bytes that are no text": lambda: iter([b"\xff\xfe\x00\x80\n"]),
    "brackets without an end": lambda: iter([b"[" * 1_000_000]),
    "an observation of a million lists": lambda: iter([STATE % (b"[" + b"[]," * 999_999 + b"1]")]),
    "nothing": lambda: iter([]),
}


def checked(
    node: HostileNode, folder: Path, pinned: bool = True, more: Mapping[str, object] | None = None
) -> tuple[str, int]:
    """What check.py prints of a node with some keys, and the bytes of memory it took."""
    keys = node.known_hosts(folder / "known_hosts")
    if not pinned:
        keys.write_text("")
    where = {
        "ssh_hostname": "127.0.0.1",
        "ssh_port": node.port,
        "ssh_user": "root",
        "ssh_password": "any",
        "ssh_look_for_keys": False,
        "ssh_allow_agent": False,
        "ssh_known_hosts_file": str(keys),
        **(more or {}),
    }
    attach = "from b200kit.operations import preflight\npreflight.attach()\n"
    (folder / "site.py").write_text(f"{attach}nodes = [('n1', {where!r})]\n")
    (folder / "group_data").mkdir()
    lines = (f"{key} = {value}\n" for key, value in GOOD.items() if key not in where)
    (folder / "group_data" / "nodes.py").write_text("".join(lines))
    with (folder / "printed").open("w+") as out:
        running = Forked([folder / "site.py", "deploy/check.py", "-y"], os.environ, out)
        assert running.wait() in (1, 2)
    return (folder / "printed").read_text(), running.peak_bytes


ON_BOTH = pytest.mark.parametrize(
    "on_stderr",
    [pytest.param(False, id="stdout"), pytest.param(True, id="stderr", marks=pytest.mark.process)],
)


@ON_BOTH
@pytest.mark.parametrize(
    "kind", ["line ends", *(pytest.param(k, marks=pytest.mark.process) for k in [*FLOODS][1:])]
)
def test_node_that_prints_without_end_is_cut_off_and_named(
    kind: str, on_stderr: bool, tmp_path: Path
) -> None:
    with HostileNode(FLOODS[kind], on_stderr) as node:
        printed, memory = checked(node, tmp_path)
    assert "Traceback" not in printed
    assert memory < MOST_BYTES
    assert_message(lines_with(printed, "n1  observe")[0])


@pytest.mark.parametrize("kind", GARBAGE)
def test_node_that_prints_garbage_is_named(kind: str, tmp_path: Path) -> None:
    with HostileNode(GARBAGE[kind]) as node:
        printed, memory = checked(node, tmp_path)
    assert "Traceback" not in printed
    assert memory < MOST_BYTES
    assert_message(
        *lines_with(printed, "n1  observe"), lines_with(printed, "1 node: ")[0].split("  ")[0]
    )


def test_node_without_a_pinned_key_is_named_with_the_command_that_brings_one(
    tmp_path: Path,
) -> None:
    with HostileNode(lambda: iter([])) as node:
        printed, _ = checked(node, tmp_path, pinned=False)
        name = f"[127.0.0.1]:{node.port}"
    [line, *_] = lines_with(printed, "no host key of")
    assert "b200 init" in line
    assert name in line
    assert node.commands == []


@pytest.mark.parametrize("who", ["sudo: a password", "sudo-rs: interactive authentication"])
def test_node_that_wants_a_password_asks_nobody(who: str, tmp_path: Path) -> None:
    with HostileNode(lambda: iter([f"{who} is required\n".encode()]), True, status=1) as node:
        printed, _ = checked(node, tmp_path)
    assert "sudo password:" not in printed
    assert_message(*lines_with(printed, "n1  observe"))


@ON_BOTH
def test_node_that_prints_escapes_drives_no_terminal(on_stderr: bool, tmp_path: Path) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b1A\rn1  LIVE\u202e\u2028".encode()
    with HostileNode(lambda: iter([hostile + b"\nn1  LIVE\n" + hostile]), on_stderr) as node:
        printed, _ = checked(node, tmp_path)
    # pyinfra colours its own lines, also where nobody sees it.
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed)
    assert plain.replace("\n", "").isprintable()
    assert_message(*lines_with(plain, "n1  observe"))


@pytest.mark.process
def test_ssh_and_pyinfra_reach_a_node_through_the_jump_host_that_is_pinned_alone(
    tmp_path: Path,
) -> None:
    key, known = tmp_path / "id", tmp_path / "known_hosts"
    paramiko.ECDSAKey.generate().write_private_key_file(str(key))
    with HostileNode(lambda: iter([b"garbage\n"])) as node, JumpHost() as bastion:
        jump = {"ssh_proxy_jump": f"ops@127.0.0.1:{bastion.port}", "ssh_key": str(key)}
        reached = {
            "ssh_hostname": "127.0.0.1", "ssh_port": node.port, "ssh_user": "root",
            "ssh_known_hosts_file": str(known), **jump,
        }  # fmt: skip
        way = login.of_data("n1", reached)
        for pins, code in ((node.pin, "host-key-unknown"), (node.pin + bastion.pin, None)):
            known.write_text(pins)
            (tmp_path / str(code)).mkdir()
            with pytest.raises(look.NotSeen) as seen:
                look.observe(way, {})
            before = len(node.commands)
            more = {**jump, "ssh_known_hosts_file": str(known)}
            printed, _ = checked(node, tmp_path / str(code), more=more)
            assert seen.value.cause == code, seen.value
            assert connection_fault.code_of(printed) == code, printed
            assert [bool(before), len(node.commands) > before] == [code is None] * 2
    assert set(bastion.passed) == {node.port}
