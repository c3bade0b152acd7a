"""How a node is reached, as typed and as ssh is told, jump hosts included."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from b200kit.run import login
from b200kit.run.login import Login
from tests.subtests import in_subtests


@in_subtests(
    ("typed", "host", "user", "port"),
    [
        ("n01", "n01", None, None),
        ("u@h:22791", "h", "u", 22791),
        ("ssh://u@h:22791", "h", "u", 22791),
        ("[::1]:22", "::1", None, 22),
        ("u@fe80::1%eth0", "fe80::1%eth0", "u", None),
        ("ops@corp@n01", "n01", "ops@corp", None),
    ],
)
def test_typed_words_are_taken_apart(
    typed: str, host: str, user: str | None, port: int | None
) -> None:
    found = login.parsed(typed)
    assert (found.host, found.user, found.port) == (host, user, port)
    assert login.parsed(found.typed) == found


@in_subtests(
    ("typed",),
    [("n01:",), ("n01:0",), ("n01:65536",), ("n01:1:2",), ("-oProxyCommand=x",), ("a b",)],
)
def test_anything_else_is_refused(typed: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        login.parsed(typed)


def as_ssh_reads(words: list[str]) -> dict[str, str]:
    """What ssh makes of its command line and its files."""
    done = subprocess.run(["ssh", "-G", *words], capture_output=True, text=True, check=True)
    return dict(line.partition(" ")[::2] for line in done.stdout.splitlines())


def test_users_ssh_config_cannot_loosen_what_holds_for_node_and_jump_host(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("Host *\n StrictHostKeyChecking no\n UserKnownHostsFile /own\n User anna\n")
    way = Login("10.0.0.1", port=2222, jump="b@bastion", known_hosts=("/k",), ssh_config=str(own))
    node, bastion = (as_ssh_reads(each.words(tmp_path)) for each in (way, way.last_jump()))
    for found in (node, bastion):
        assert (found["stricthostkeychecking"], found["batchmode"]) == ("true", "yes")
        assert found["userknownhostsfile"] == "/k"
    assert (node["user"], node["port"]) == ("anna", "2222")
    assert node["proxycommand"].endswith("-l b -- bastion")
    assert (bastion["user"], bastion["port"], "proxycommand" in bastion) == ("b", "22", False)


def test_every_word_of_ours_stands_against_a_users(tmp_path: Path) -> None:
    loose = {"no": "yes", "yes": "no", "none": "/own", "LogLevel": "DEBUG"}
    own = tmp_path / "own"
    words = login._strict()
    # By each of these a user's file could let in a host that known_hosts does not have.
    assert words.keys() >= {
        *("StrictHostKeyChecking", "VerifyHostKeyDNS", "KnownHostsCommand", "UpdateHostKeys"),
        *("NoHostAuthenticationForLocalhost", "ControlPath", "ControlMaster"),
    }
    lines = [f" {name} {loose.get(value, '99')}" for name, value in words.items()]
    own.write_text("\n".join(["Host *", *(line for line in lines if "LogLevel" not in line), ""]))
    empty = tmp_path / "empty"
    empty.write_text("")
    loosened, ours = (
        as_ssh_reads(Login("10.0.0.1", ssh_config=str(file)).words(tmp_path))
        for file in (own, empty)
    )
    assert loosened == ours


def test_word_of_a_patched_ssh_is_only_for_one_that_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream's ssh ends with 255 where a file has a word it does not know."""
    for status, is_said in ((0, True), (255, False)):
        (tmp_path / "ssh").write_text(f"#!/bin/sh\nexit {status}\n")
        (tmp_path / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        login._strict.cache_clear()
        assert ("GSSAPIKeyExchange no" in Login("n1").config()) is is_said
    login._strict.cache_clear()
