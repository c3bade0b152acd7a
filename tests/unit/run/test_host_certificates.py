"""Which host certificates are believed: those that ssh-keygen signs, in every way but the right."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from b200kit.run import known_hosts
from b200kit.run.host_certificates import believe, certified
from b200kit.run.login import Login
from tests.subtests import in_subtests

NAMES = ("n01", "10.0.0.1")


def keygen(*words: str) -> None:
    subprocess.run(["ssh-keygen", "-q", *words], check=True, capture_output=True)


def public(path: Path) -> str:
    """A public key, "type base64"."""
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the keys of an authority, of another one, and of a host."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ca", "other", "host"):
        keygen("-t", "ed25519", "-N", "", "-f", str(folder / name))
    return folder


def certificate(keys: Path, *words: str, by: str = "ca") -> str:
    """The host's certificate, "type base64"."""
    keygen("-s", str(keys / by), "-I", "id", *words, str(keys / "host.pub"))
    return " ".join((keys / "host-cert.pub").read_text().split()[:2])


def test_certificate_of_the_authority_gives_the_key_in_it(keys: Path) -> None:
    made = certificate(keys, "-h", "-n", "n01,n01.example")
    assert believe(made, {public(keys / "ca")}, NAMES, time.time()) == public(keys / "host")


@in_subtests(
    ("words", "by", "later"),
    [
        (["-h", "-n", "n02"], "ca", 0),
        (["-h"], "ca", 0),
        (["-n", "n01"], "ca", 0),
        (["-h", "-n", "n01"], "other", 0),
        (["-h", "-n", "n01", "-V", "+1h"], "ca", 7200),
        (["-h", "-n", "n01", "-V", "+1h:+2h"], "ca", 0),
    ],
)
def test_any_other_is_not_believed(keys: Path, words: list[str], by: str, later: float) -> None:
    made = certificate(keys, *words, by=by)
    assert believe(made, {public(keys / "ca")}, NAMES, time.time() + later) is None


def test_what_was_changed_or_is_none_is_not_believed(keys: Path) -> None:
    kind, blob = certificate(keys, "-h", "-n", "n01").split()
    at = len(blob) // 2
    changed = f"{kind} {blob[:at]}{'A' if blob[at] != 'A' else 'B'}{blob[at + 1 :]}"
    for shown in (changed, public(keys / "host"), f"{kind} AAAA", kind, ""):
        assert believe(shown, {public(keys / "ca")}, NAMES, time.time()) is None


@in_subtests(
    ("line", "believed"),
    [
        ("@cert-authority * {ca}", True),
        ("@cert-authority 10.0.0.* {ca}", True),
        ("@cert-authority *.example,n0? {ca}", True),
        ("@cert-authority *,!n01 {ca}", False),
        ("@cert-authority n02 {ca}", False),
        ("@cert-authority [n01]:2222 {ca}", False),
        ("@cert-authority * {other}", False),
        ("@cert-authority * {ca}\n@revoked * {ca}", False),
        ("@cert-authority * {ca}\n@revoked * {host}", False),
        ("n01 {ca}", False),
    ],
)
def test_authority_is_one_that_the_file_names_for_the_host(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, believed: bool
) -> None:
    made = certificate(keys, "-h", "-n", "n01")
    scan = tmp_path / "ssh-keyscan"
    scan.write_text(f"#!/bin/sh\necho '{made}'\n")
    scan.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    text = line.format(**{name: public(keys / name) for name in ("ca", "other", "host")})
    found = certified(text, Login("10.0.0.1"), NAMES)
    assert found == ((public(keys / "host"),) if believed else ())


def test_revoked_key_is_pinned_for_nobody(keys: Path) -> None:
    key = public(keys / "host")
    assert known_hosts.pinned(f"n01 {key}\n", ["n01"]) == (key,)
    assert known_hosts.pinned(f"n01 {key}\n@revoked n09 {key}\n", ["n01"]) == ()
