"""The fingerprint of a repository's key, compared with what gpg itself prints."""

from __future__ import annotations

import base64
import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from b200kit.inventory.openpgp import canonical, fingerprints
from tests.lab.shell import ensure_host_packages, run
from tests.lab.supply.gpg import parse_fingerprints, signing_key
from tests.messages import raises_message
from tests.subtests import in_subtests

BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
END = "-----END PGP PUBLIC KEY BLOCK-----"
# A version 4 ed25519 packet with a made-up point: enough for a fingerprint, no one's key.
PACKET = bytes.fromhex("9833040000000016092b06010401da470f010107400000") + bytes(30)


def fingerprint(text: str) -> str:
    """The fingerprint of a file with one key."""
    [only] = fingerprints(text)
    return only


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
    ],
)
def test_what_is_no_single_whole_key_is_refused_in_words(text: str) -> None:
    with raises_message(ValueError):
        fingerprints(text)


@contextmanager
def two_keys() -> Iterator[tuple[str, str, Path]]:
    """The pinned key and another one, armored, and a repository that the other one signed."""
    ensure_host_packages(print)
    with tempfile.TemporaryDirectory(prefix="gpg-", dir="/tmp") as name:
        repository = Path(name) / "repository"
        repository.mkdir()
        (repository / "Packages").write_text("")
        empty = hashlib.sha256(b"").hexdigest()
        (repository / "Release").write_text(
            f"Origin: site\nDate: Sat, 21 Nov 2026 09:00:00 UTC\nSHA256:\n {empty} 0 Packages\n"
        )
        with signing_key(Path(name) / "a", "pinned") as pinned:
            text = pinned.armored()
        with signing_key(Path(name) / "b", "other") as other:
            other.sign_release(repository / "Release")
            yield text, other.armored(), repository


def apt_believes(key: bytes, repository: Path) -> bool:
    """Whether the real apt takes a repository whose source is signed by what this file holds."""
    folder = repository.parent
    (folder / "key.asc").write_bytes(key)
    (folder / "list").write_text(f"deb [signed-by={folder}/key.asc] file:{repository} ./\n")
    (folder / "lists").mkdir(exist_ok=True)
    options = {
        "Dir::Etc::SourceList": folder / "list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return run(["apt-get", "update", "--error-on=any", *words], check=False).returncode == 0


def raw(armored: str) -> bytes:
    """The bytes in gpg's armor."""
    lines = armored.split("\n\n", 1)[1].splitlines()
    return base64.b64decode("".join(line for line in lines if line[:1] not in ("=", "-")))


def wrapped(data: bytes) -> str:
    """Bytes as lines of base64 without padding, which ends what a reader takes."""
    encoded = base64.b64encode(data).decode()
    assert not encoded.endswith("=")
    return "\n".join(encoded[at : at + 64] for at in range(0, len(encoded), 64))


def forged(pinned: bytes, other: bytes, blank: str) -> str:
    """The pinned key, and another one where the pinned one's second name has its text.

    What looks like an empty line to one reader and not to the next hides what stands before it.
    """
    other += bytes([0xB4, 3 - (len(other) + 2) % 3]) + b"x" * (3 - (len(other) + 2) % 3)
    head = pinned + b"\xcd\xff" + len(other).to_bytes(4, "big")
    pad = (3 - (len(head) + 2) % 3) % 3
    head = pinned + bytes([0xB4, pad]) + b"x" * pad + b"\xcd\xff" + len(other).to_bytes(4, "big")
    return "\n".join([BEGIN, blank, wrapped(head), "", wrapped(other), END, ""])


def test_file_in_which_apt_reads_another_key_than_the_pinned_one_is_refused() -> None:
    with two_keys() as (pinned, other, repository):
        text = forged(raw(pinned), raw(other), " ")
        # What is to be refused is no invention: apt believes the other key by this file.
        assert apt_believes(text.encode(), repository)
        for read in (fingerprints, lambda text: canonical(text, fingerprint(pinned))):
            with pytest.raises(ValueError, match="armor"):
                read(text)


def test_apt_reads_the_pinned_key_and_no_other_in_what_is_shipped() -> None:
    with two_keys() as (pinned, other, repository):
        mine, theirs = fingerprint(pinned), fingerprint(other)
        assert raw(canonical(pinned, mine).decode()) == raw(pinned)
        assert apt_believes(canonical(other, theirs), repository)
        assert not apt_believes(canonical(pinned, mine), repository)


def test_of_several_keys_in_a_file_only_the_pinned_one_reaches_apt() -> None:
    with two_keys() as (pinned, other, repository):
        mine, theirs = fingerprint(pinned), fingerprint(other)
        both = armor(raw(pinned) + raw(other))
        assert fingerprints(both) == [mine, theirs]
        assert apt_believes(both.encode(), repository)
        assert not apt_believes(canonical(both, mine), repository)
        assert raw(canonical(both, theirs.lower()).decode()) == raw(other)


def test_file_without_the_pinned_key_names_those_it_has() -> None:
    with raises_message(ValueError):
        canonical(armor(PACKET), "0" * 40)


@in_subtests(
    "text",
    [
        armor(PACKET).replace("\n\n", "\n \n"),
        armor(PACKET).replace("\n\n", "\n\t\n\n"),
        armor(PACKET).replace(END, f" {END}"),
        armor(PACKET) + armor(PACKET),
        armor(PACKET) + "more",
        armor(PACKET).replace(f"\n{END}", f"\n\nmDME\n{END}"),
        armor(PACKET).replace("\n\n", "\nmDME\n\n"),
        armor(PACKET + b"\xcd\xe0" + bytes(40)),
        armor(PACKET + b"\xd1\x03abc"),
        armor(PACKET + b"\xb0\x03abc"),
        armor(PACKET + b"\xb8\x01\x06"),
        armor(PACKET + b"\xb7" + bytes(40)),
    ],
)
def test_key_that_readers_could_take_in_two_ways_is_refused(text: str) -> None:
    with raises_message(ValueError):
        canonical(text, fingerprint(armor(PACKET)))


def test_key_is_written_in_one_way_however_it_was_written() -> None:
    body = PACKET[2:]
    new = armor(bytes([0xC6, 255]) + len(body).to_bytes(4, "big") + body, "=AbCd")
    mine = fingerprint(new)
    old = armor(PACKET).replace("\n\n", "\nVersion: 1\n\n")
    assert canonical(new, mine) == canonical(old, mine)
