"""Secrets are found by value, by shape and by their key, in bytes, texts and documents."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from b200kit.node.lib.redact import REDACTED, Redactor, redact, secret_key
from tests.unit.report import records

KEY = b"canary-0123456789/abc+def"
PEM = b"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"


@pytest.fixture
def redactor(tmp_path: Path) -> Redactor:
    """Of a node with two secrets, one of them in HAProxy's map."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "api_key").write_bytes(KEY + b"\n")
    upstream = tmp_path / "upstream.map"
    upstream.write_bytes(b"node Bearer upstream-canary-key\n")
    return Redactor.of_this_node(folder, [upstream, tmp_path / "absent"])


@pytest.mark.parametrize(
    "text",
    [
        b"api_key " + KEY,
        b"in base64: " + base64.b64encode(KEY),
        b"GET /?key=canary-0123456789%2Fabc%2Bdef",
        b'{"key": "' + KEY + b'"}',
        b"Authorization: Bearer somebody-elses-key",
        b"authorization: bearer upstream-canary-key",
        b"HF_TOKEN=hf_abcdefghijklmnopqrstuv",
        b"vllm serve --api-key another-key-0001",
        b"log of a key file: " + PEM,
        b"cut off in the middle: " + PEM[:40],
    ],
)
def test_secret_is_left_out_in_every_form(redactor: Redactor, text: bytes) -> None:
    clean = redactor.content(text)
    assert redactor.text(text.decode()) == clean.decode()
    assert REDACTED.encode() in clean
    for word in (KEY, b"upstream-canary", b"somebody", b"hf_abc", b"another-key", b"MIIE"):
        assert word not in clean


def test_text_without_a_secret_is_left_as_it_is(redactor: Redactor) -> None:
    text = b"NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\nBearer of news\n"
    assert redactor.content(text) == text
    assert redactor.text(text.decode()) == text.decode()


def test_short_values_tear_no_holes() -> None:
    assert Redactor([b"node", b""]).content(b"the node") == b"the node"


def test_secrets_that_cannot_be_read_end_it(tmp_path: Path) -> None:
    # No file, but there: what is secret on this node is not known then.
    with pytest.raises(IsADirectoryError):
        Redactor.of_this_node(tmp_path / "none", [tmp_path])


def test_measurements_about_tokens_are_not_taken_for_secrets() -> None:
    smoke = records.smoke()
    assert redact(smoke) == smoke
    for key in ("total_input_tokens", "tokens_per_chunk", "api_key_file", "time_per_token_ms"):
        assert not secret_key(key)


def test_a_secret_file_keeps_its_mode_and_owner() -> None:
    files = records.state()["files"]
    kept = redact(files)
    assert kept == {
        "/etc/b200kit/secrets/api_key": {"hmac": "[redacted]", "mode": "0600", "owner": "r"}
    }


def test_longer_secrets_go_first_and_known_ones_may_be_short() -> None:
    secrets = ["abc", "abc-def", ""]
    assert redact("key abc-def, abc", secrets) == "key [redacted], [redacted]"
    assert redact({"abc": ["-abc-"]}, secrets) == {"[redacted]": ["-[redacted]-"]}


def test_a_return_code_in_a_log_is_no_secret(redactor: Redactor) -> None:
    assert redactor.text("probe failed ret=-110, record=5") == "probe failed ret=-110, record=5"


@pytest.mark.parametrize("name", ["api_key", "token", "password", "client_secret", "key"])
def test_a_value_after_its_name_is_redacted(redactor: Redactor, name: str) -> None:
    assert redactor.text(f"?{name}=CANARY&a=1").startswith(f"?{name}=[redacted]")
    assert redactor.content(b"https://me:CANARY@host/") == b"https://[redacted]@host/"


@pytest.mark.parametrize(
    "text",
    ["key=/etc/ssl/site/n07.pem", "ssh_key=~/.ssh/id_ed25519", "(token=/run/secrets/hf)"],
)
def test_path_of_a_secret_is_shown(redactor: Redactor, text: str) -> None:
    assert redactor.text(f"{text} (No such file)") == f"{text} (No such file)"
    assert redactor.content(text.encode()) == text.encode()


@pytest.mark.parametrize("value", ["/8bZ/x0y1z2", "ab)cd", "a(b)c", "/etcetera", "p=w"])
@pytest.mark.parametrize("name", ["key", "token", "password", "secret"])
def test_brackets_of_the_text_stay_and_the_whole_value_goes(
    redactor: Redactor, name: str, value: str
) -> None:
    assert redactor.text(f"(with {name}={value}) (2)") == f"(with {name}=[redacted]) (2)"
    assert redactor.text(f"{name}={value}") == f"{name}=[redacted]"


def test_password_that_looks_like_a_path_is_a_password(redactor: Redactor) -> None:
    assert redactor.text("password=/etc/shadow!") == "password=[redacted]"
