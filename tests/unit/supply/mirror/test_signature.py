"""By which keys a mirror is signed, with gpg itself: in time, not revoked, and that one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from b200kit.supply.mirror import signature
from b200kit.supply.program import SupplyRefused

# gpg takes its time for signing as that of the machine; --faked-system-time moves it.
_run = subprocess.run
THEN, LATER = "20260101T000000", "20260601T000000"


class Keyring:
    """gpg with a home of its own, and a key that holds for a month of 2026."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.gpg("--quick-generate-key", "mirror", "ed25519", "sign", "30d", at=THEN)

    def gpg(self, *words: str, at: str = THEN, given: str = "") -> str:
        """What gpg prints at a time."""
        argv = ["gpg", "--homedir", str(self.home), "--batch", "--yes", "--passphrase", ""]
        argv += ["--pinentry-mode", "loopback", "--faked-system-time", f"{at}!", *words]
        done = subprocess.run(argv, input=given, capture_output=True, text=True, check=True)
        return done.stdout

    def export(self, name: str) -> Path:
        """The public key as it is now."""
        path = self.home / name
        path.write_text(self.gpg("--armor", "--export"))
        return path


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyring]:
    """The keyring."""
    # A socket's path has at most 107 bytes.
    home = tmp_path_factory.mktemp("g")
    home.chmod(0o700)
    yield Keyring(home)
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)


@pytest.fixture(scope="module")
def signed(ring: Keyring) -> tuple[Path, Path]:
    """A file and its signature."""
    file = ring.home / "SHA256SUMS"
    file.write_text("{}\n")
    made = ring.home / "SHA256SUMS.asc"
    ring.gpg("--armor", "--detach-sign", "--output", str(made), str(file))
    return file, made


def at(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Let gpg believe that it is then."""

    def then(argv: list[str], **options: object) -> object:
        faked = ["--faked-system-time", f"{moment}!"] if argv[0] == "gpg" else []
        return _run([argv[0], *faked, *argv[1:]], **options)  # type: ignore[call-overload]

    monkeypatch.setattr("b200kit.supply.mirror.signature.subprocess.run", then)


def test_key_in_its_time_is_taken_and_an_expired_one_is_not(
    ring: Keyring, signed: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ring.export("key.asc")
    at(monkeypatch, THEN)
    signature.require(*signed, key)
    at(monkeypatch, LATER)
    with pytest.raises(SupplyRefused, match=r"SHA256SUMS is not signed by"):
        signature.require(*signed, key)


def test_key_that_is_revoked_is_not_taken(
    ring: Keyring, signed: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    [revocation] = (ring.home / "openpgp-revocs.d").glob("*.rev")
    # gpg puts a colon before the armor, so that nobody imports it by mistake.
    made = ring.home / "revoked.asc"
    made.write_text(revocation.read_text().replace(":-----BEGIN", "-----BEGIN"))
    ring.gpg("--import", str(made))
    at(monkeypatch, THEN)
    with pytest.raises(SupplyRefused, match=r"SHA256SUMS is not signed by"):
        signature.require(*signed, ring.export("revoked-key.asc"))


def test_agent_and_home_of_a_killed_process_go_with_the_next_one(tmp_path: Path) -> None:
    script = (
        "import os, signal\n"
        "from b200kit.supply.mirror import signature\n"
        "with signature._gpg() as gpg:\n"
        "    gpg.run('--quick-generate-key', 'killed', 'ed25519', 'sign', 'never')\n"
        "    print(gpg.home, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    home = Path(killed.stdout.strip())
    assert (home / "private-keys-v1.d").is_dir(), killed.stderr
    connect = ["gpg-connect-agent", "--no-autostart", "--homedir", str(home), "/bye"]
    assert "no gpg-agent" not in subprocess.run(connect, capture_output=True, text=True).stderr
    signature.make(tmp_path / "private", tmp_path / "public")
    assert not home.exists()
