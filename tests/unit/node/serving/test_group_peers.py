"""Whether a member of a group is joined to the others, and what it does when one is lost."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from b200kit.node.lib.main_pid import MainPidGone
from b200kit.node.serving import group_peers
from b200kit.node.serving.group_peers import address, connected
from tests.subtests import in_subtests
from tests.unit import serving_document

HEAD = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout\n"
)
LINE = "   0: 0209630A:CE54 {remote} {state} 00000000:00000000 00:00000000 00000000  {uid} 0 1 1\n"


def table(*, state: str = "01", uid: int = 990, remote: str = "0109630A:733D") -> str:
    """The kernel's table with one connection."""
    return HEAD + LINE.format(remote=remote, state=state, uid=uid)


def test_established_connection_of_the_engine_counts() -> None:
    assert connected([table()], 990) == {"10.99.9.1"}


@in_subtests("other", [table(uid=0), table(state="0A"), table(state="08"), HEAD, ""])
def test_nothing_else_counts(other: str) -> None:
    assert connected([other], 990) == set()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("0109630A", "10.99.9.1"),
        ("0000000000000000FFFF00000109630A", "10.99.9.1"),
        ("000000FD000000000000000001000000", "fd00::1"),
    ],
)
def test_addresses_are_read_as_people_write_them(text: str, plain: str) -> None:
    assert address(text) == plain


def looks(*found: list[str]) -> Iterator[list[str]]:
    """What is missing, look after look; the last goes on."""
    yield from found
    while True:
        yield found[-1]


def test_member_waits_until_all_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_peers, "EVERY_S", 0.0)
    seen = looks(["a", "b"], ["b"], [])
    assert group_peers.wait(lambda: next(seen), 60, lambda: True) == []
    assert group_peers.wait(lambda: [], 0, lambda: True) == []


def test_member_that_is_not_joined_in_time_names_who_is_missing() -> None:
    assert group_peers.wait(lambda: ["10.1.0.2"], 0, lambda: True) == ["10.1.0.2"]


def test_member_whose_engine_died_waits_for_nobody() -> None:
    with pytest.raises(MainPidGone):
        group_peers.wait(lambda: ["10.1.0.2"], 60, lambda: False)


def test_peer_is_lost_only_after_two_looks_in_a_row() -> None:
    seen = looks([], ["b"], [], ["b"], ["b"])
    taken: list[list[str]] = []

    def missing() -> list[str]:
        taken.append(next(seen))
        return taken[-1]

    assert group_peers.watch(missing, 0) == ["b"]
    assert len(taken) == 5


def test_own_connections_are_found_in_the_real_tables(tmp_path: Path) -> None:
    user = pwd.getpwuid(os.getuid()).pw_name
    group = {"unit": "vllm@0.service", "user": user, "peers": ["127.0.0.1"]}
    config = serving_document.written(tmp_path, "http://127.0.0.1:8000", group=group)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
        assert group_peers.load(config).missing() == []
    elsewhere = group_peers.GroupMember("u", os.getuid(), ("198.51.100.7",))
    assert elsewhere.missing() == ["198.51.100.7"]


def test_node_without_a_group_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = serving_document.written(tmp_path, "http://127.0.0.1:8000")
    assert group_peers.main(["--config", str(config), "--watch"]) == 2
    assert "names no group" in capsys.readouterr().err
