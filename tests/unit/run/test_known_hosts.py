"""Host keys as text: which are pinned, and how one host's are replaced and nobody else's."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from b200kit.run import known_hosts
from tests.messages import raises_message


def key(seed: str, kind: str = "ssh-ed25519") -> str:
    name = kind.encode()
    digest = hashlib.sha256(seed.encode()).digest()
    raw = b"".join(len(part).to_bytes(4, "big") + part for part in (name, digest))
    return f"{kind} {base64.b64encode(raw).decode()}"


OLD, NEW, OTHER = key("old"), key("new"), key("other")


def hashed(name: str) -> str:
    salt = b"0123456789abcdefghij"
    digest = hmac.new(salt, name.encode(), "sha1").digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def test_one_host_is_pinned_again_and_every_other_line_stays_as_it_is() -> None:
    text = (
        f"# ours\n10.0.0.1 {OLD} root@n1\n10.0.0.2 {OTHER} n2\n@cert-authority *.x {OTHER}\n\n"
        f"{hashed('10.0.0.1')} {OLD}\n10.0.0.1 {key('old', 'ssh-rsa')}\n"
    )
    assert known_hosts.repinned(text, ["10.0.0.1"], [NEW]) == (
        f"# ours\n10.0.0.2 {OTHER} n2\n@cert-authority *.x {OTHER}\n\n10.0.0.1 {NEW}\n"
    )


def test_line_that_names_several_hosts_keeps_the_others() -> None:
    text = f"n1,10.0.0.1 {OLD}\n"
    assert known_hosts.repinned(text, ["10.0.0.1"], [NEW]) == f"n1 {OLD}\n10.0.0.1 {NEW}\n"


def test_port_is_part_of_the_name() -> None:
    name = known_hosts.name_of("10.0.0.1", 2222)
    text = f"10.0.0.1 {OTHER}\n[10.0.0.1]:2222 {OLD}\n{hashed(name)} {OLD}\n"
    assert known_hosts.pinned(text, [name]) == (OLD,)
    assert known_hosts.repinned(text, [name], [NEW]) == (
        f"10.0.0.1 {OTHER}\n[10.0.0.1]:2222 {NEW}\n"
    )


def test_address_that_begins_alike_is_another_host() -> None:
    assert known_hosts.pinned(f"10.0.0.11 {OTHER}\n", ["10.0.0.1"]) == ()


def test_keys_are_taken_from_public_key_files_and_known_hosts_lines() -> None:
    text = f"{NEW} root@n1\n10.0.0.1 {key('r', 'ssh-rsa')}\nnothing here\n{NEW} again\n"
    assert known_hosts.keys_in(text) == (NEW, key("r", "ssh-rsa"))


def test_of_a_log_only_marked_lines_are_believed() -> None:
    text = f"debug: {OLD}\nb200kit-host-key: {NEW}\nan ssh-rsa key was made\n"
    assert known_hosts.keys_in(text, "b200kit-host-key:") == (NEW,)


@pytest.mark.parametrize(
    "line", ["ssh-ed25519", NEW[:-9], "ssh-ed25519 bm9uZQ==", NEW.replace("ssh-ed25519", "ssh-rsa")]
)
def test_half_a_key_is_refused(line: str) -> None:
    with raises_message(ValueError):
        known_hosts.keys_in(line)


def test_fingerprint_is_the_one_ssh_keygen_shows() -> None:
    digest = hashlib.sha256(base64.b64decode(NEW.split()[1])).digest()
    assert known_hosts.fingerprint(NEW) == "SHA256:" + base64.b64encode(digest).decode().strip("=")
