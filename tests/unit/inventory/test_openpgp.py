"""The fingerprint of a repository's key, compared with what gpg itself prints."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from b200kit.inventory.openpgp import fingerprint
from tests.lab.shell import ensure_host_packages, run
from tests.lab.supply.gpg import parse_fingerprints, signing_key
from tests.messages import raises_message
from tests.subtests import in_subtests

BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
END = "-----END PGP PUBLIC KEY BLOCK-----"
# A version 4 ed25519 packet with a made-up point: enough for a fingerprint, no one's key.
PACKET = bytes.fromhex("9833040000000016092b06010401da470f010107400000") + bytes(30)


def armor(packet: bytes, checksum: str = "") -> str:
    """A packet as a key file."""
    encoded = base64.b64encode(packet).decode()
    return "\n".join([BEGIN, "", encoded, *([checksum] if checksum else []), END, ""])


@contextmanager
def keyring(algorithm: str) -> Iterator[tuple[str, str]]:
    """A fresh key of *algorithm*, armored, and its fingerprint as gpg tells it."""
    ensure_host_packages(print)
    # Short, because gpg's socket lies in it.
    with tempfile.TemporaryDirectory(prefix="gpg-", dir="/tmp") as name:
        home = {"GNUPGHOME": name}
        gpg = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
        try:
            run([*gpg, "--quick-generate-key", "site@example.invalid", algorithm, "sign"], env=home)
            armored = run([*gpg, "--armor", "--export"], env=home).stdout
            listed = run([*gpg, "--with-colons", "--list-keys"], env=home).stdout
            yield armored, parse_fingerprints(listed)[0]
        finally:
            run(["gpgconf", "--kill", "all"], env=home, check=False)


@pytest.mark.parametrize("algorithm", ["ed25519", "rsa2048"])
def test_fingerprint_is_the_one_gpg_tells(algorithm: str) -> None:
    with keyring(algorithm) as (armored, expected):
        assert fingerprint(armored) == expected
        assert fingerprint(armored.replace("\n", "\r\n")) == expected
        assert fingerprint("\n" + armored + "\n\n") == expected


def test_key_of_the_lab_has_the_fingerprint_its_inventory_pins() -> None:
    ensure_host_packages(print)
    with (
        tempfile.TemporaryDirectory(prefix="gpg-", dir="/tmp") as name,
        signing_key(Path(name), "unit") as key,
    ):
        assert fingerprint(key.armored()) == key.fingerprint


def test_armor_headers_and_checksum_are_no_part_of_the_key() -> None:
    plain = fingerprint(armor(PACKET))
    assert fingerprint(armor(PACKET, "=AbCd")) == plain
    assert fingerprint(armor(PACKET).replace("\n\n", "\nVersion: 1\nComment: x\n\n")) == plain


def test_same_packet_with_a_new_style_length_is_the_same_key() -> None:
    body = PACKET[2:]
    new = bytes([0xC6, len(body)]) + body
    long = bytes([0xC6, 255]) + len(body).to_bytes(4, "big") + body
    assert fingerprint(armor(new)) == fingerprint(armor(long)) == fingerprint(armor(PACKET))


@in_subtests(
    "text",
    [
        "",
        "\n\n",
        "<html><body>404 Not Found</body></html>",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nAAAA\n",
        f"{BEGIN}\n\nmQ!!\n{END}\n",
        f"{BEGIN}\n\nmQEN\nmQ\n{END}\n",
        f"{BEGIN}\n\n{END}\n",
        f"{BEGIN}\n",
        armor(b"\x00\x01\x02"),
        armor(b"\x9b\x01\x02\x03"),
        armor(b"\x88" + PACKET[1:]),
        armor(PACKET[:2] + b"\x06" + PACKET[3:]),
        armor(b"\xc6\x00"),
        armor(PACKET[:-10]),
        armor(PACKET + PACKET),
    ],
)
def test_what_is_no_single_whole_key_is_refused_in_words(text: str) -> None:
    with raises_message(ValueError):
        fingerprint(text)
