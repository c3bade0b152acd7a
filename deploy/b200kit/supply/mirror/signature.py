"""The mirror's OpenPGP key, by gpg: made, used to sign, and to prove.

The private key is a file of its own, root-only, that never lies in a mirror. gpg gets a home
directory for each call: no keyring of the user's counts, and no agent stays.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from b200kit.inventory import openpgp
from b200kit.node.lib import documents, durable_files
from b200kit.node.lib.readings import is_digits
from b200kit.supply.program import SupplyRefused, run

_LIMIT_S = 120
# Below /tmp by name: a socket's path may have 107 bytes, and TMPDIR be long.
_BELOW, _HOME = Path("/tmp"), "b200kit-gpg-"  # noqa: S108 - each is made by mkdtemp
_SIGNATURES = {"GOODSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG", "BADSIG", "ERRSIG"}


class Gpg:
    """gpg with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def run(self, *arguments: str | Path) -> str:
        """What gpg prints; SupplyRefused with its last word where it fails."""
        done = self._run(*arguments)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("gpg: ")]
            raise SupplyRefused((said or ["gpg failed"])[-1].removeprefix("gpg: "))
        return done.stdout

    def _run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        options = ("--batch", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", "")
        environment = {**os.environ, "GNUPGHOME": str(self.home), "LC_ALL": "C"}
        argv = ["gpg", *options, *map(str, arguments)]
        return run("gnupg", argv, _LIMIT_S, env=environment, text=True, errors="replace")

    def is_signed(self, file: Path, signature: Path, fingerprint: str) -> bool:
        """Whether the signature is good and by that key, none of both expired or revoked.

        gpg ends well and says VALIDSIG for a key that has expired or is revoked, too, but then it
        says EXPKEYSIG or REVKEYSIG in place of GOODSIG (doc/DETAILS of GnuPG).
        """
        said = self._run("--status-fd", "1", "--verify", signature, file)
        words = [line.split()[1:] for line in said.stdout.splitlines()]
        told = {line[0] for line in words if line} & _SIGNATURES
        valid = any(line[:2] == ["VALIDSIG", fingerprint] for line in words)
        return said.returncode == 0 and valid and told == {"GOODSIG"}


@contextmanager
def _gpg() -> Iterator[Gpg]:
    _remove_left()
    with tempfile.TemporaryDirectory(prefix=f"{_HOME}{os.getpid()}-", dir=_BELOW) as home:
        try:
            yield Gpg(Path(home))
        finally:
            _end_agent(home)


def _end_agent(home: str | Path) -> None:
    environment = {**os.environ, "GNUPGHOME": str(home)}
    subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=False)


def _remove_left() -> None:
    """Homes of processes that were killed, each with an agent that still knows the private key."""
    for home in _BELOW.glob(f"{_HOME}*-*"):
        owner = home.name.removeprefix(_HOME).partition("-")[0]
        with suppress(FileNotFoundError):  # its own process removes it
            seen = home.lstat()
            is_ours = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid()
            if is_ours and is_digits(owner) and not Path(f"/proc/{owner}").exists():
                _end_agent(home)
                shutil.rmtree(home, ignore_errors=True)


def make(private: Path, public: Path) -> str:
    """Make a key; returns its fingerprint. One that is there already stays."""
    with _gpg() as gpg:
        if private.exists():
            fingerprint = _imported(gpg, private)
        else:
            name = "b200kit mirror"
            gpg.run("--cert-digest-algo", "SHA512", "--quick-generate-key", name, "ed25519", "sign",
                    "never")  # fmt: skip
            fingerprint = _secret(gpg)
            armored = gpg.run("--armor", "--export-secret-keys", fingerprint)
            durable_files.replace(private, armored, 0o600)
        durable_files.replace(public, _public(gpg, fingerprint), 0o644)
        return fingerprint


def _secret(gpg: Gpg) -> str:
    rows = [line.split(":") for line in gpg.run("--with-colons", "-K").splitlines()]
    keys = [rows[at + 1][9] for at, row in enumerate(rows) if row[0] == "sec"]
    if len(keys) != 1:
        raise SupplyRefused(f"{len(keys)} private keys, not one")
    return keys[0]


def _imported(gpg: Gpg, private: Path) -> str:
    if not private.is_file():
        raise SupplyRefused(f"{private} is not there: b200 mirror key makes it")
    if private.stat().st_mode & 0o077:
        raise SupplyRefused(f"{private} can be read by others: chmod 600 {private}")
    gpg.run("--import", private)
    return _secret(gpg)


def _public(gpg: Gpg, fingerprint: str) -> str:
    return gpg.run("--armor", "--export-options", "export-minimal", "--export", fingerprint)


class Signer:
    """Signs for a mirror, by the key that its nodes know."""

    def __init__(self, gpg: Gpg, fingerprint: str) -> None:
        self._gpg, self.fingerprint = gpg, fingerprint
        self.public = _public(gpg, fingerprint)

    def has_signed(self, file: Path, signature: Path) -> bool:
        """Whether a signature is good and by this key."""
        return self._gpg.is_signed(file, signature, self.fingerprint)

    def detached(self, file: Path, signature: Path) -> None:
        """Write the armored signature of a file."""
        self._sign(file, signature, "--armor", "--detach-sign")

    def inline(self, file: Path, signed: Path) -> None:
        """Write a file with its signature around it, as apt reads it (InRelease)."""
        self._sign(file, signed, "--clearsign")

    def _sign(self, file: Path, signed: Path, *how: str) -> None:
        chosen = ("--yes", "--digest-algo", "SHA512", "--local-user", self.fingerprint)
        self._gpg.run(*chosen, *how, "--output", signed, file)


@contextmanager
def signer(private: Path, wanted: str) -> Iterator[Signer]:
    """The signer with a private key; SupplyRefused where it is not the one *wanted*."""
    with _gpg() as gpg:
        found = _imported(gpg, private)
        if found != wanted.upper():
            raise SupplyRefused(f"{private} is {found}, and the inventory pins {wanted}")
        yield Signer(gpg, found)


def require(file: Path, signature: Path, key: Path) -> None:
    """Hold a signature against an armored public key; SupplyRefused unless it is by that."""
    try:
        fingerprints = openpgp.fingerprints(documents.content(key).decode(errors="replace"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SupplyRefused(f"{key}: {why}") from None
    if len(fingerprints) != 1:
        raise SupplyRefused(f"{key} has {len(fingerprints)} keys: give the mirror's alone")
    with _gpg() as gpg:
        gpg.run("--import", key)
        if not gpg.is_signed(file, signature, fingerprints[0]):
            raise SupplyRefused(f"{file.name} is not signed by {fingerprints[0]} ({key})")
