"""Throwaway keys that sign the lab's repositories, in a GNUPGHOME of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.locks import locked
from tests.lab.paths import LabError
from tests.lab.shell import run

_SIGNING_S = 120
#: What binds a key to its name: as NVIDIA's of 2022 is, which apt 3 refuses. Else SHA-512.
DIGESTS = {"sha1": "SHA1"}


@dataclass(frozen=True)
class SigningKey:
    """A key by its 40-digit fingerprint, in the keyring at ``home``."""

    home: Path
    fingerprint: str

    def _gpg(self, *arguments: str | Path) -> str:
        return _gpg(self.home, *arguments)

    def armored(self) -> str:
        """Return the public key, ASCII armored."""
        return self._gpg("--armor", "--export", self.fingerprint)

    def sign_release(self, release: Path) -> None:
        """Write ``InRelease`` and ``Release.gpg`` beside a Release file."""
        signer = ["--yes", "--local-user", self.fingerprint, "--digest-algo", "SHA256"]
        inline, detached = release.with_name("InRelease"), release.with_name("Release.gpg")
        self._gpg(*signer, "--clearsign", "--output", inline, release)
        self._gpg(*signer, "--armor", "--detach-sign", "--output", detached, release)


@contextmanager
def signing_key(home: Path, name: str) -> Iterator[SigningKey]:
    """Yield the key called ``name``, made if it is not in the keyring; leaves no agent behind."""
    if len(os.fsencode(home)) > 80:
        raise LabError(f"{home} is too long for gpg's socket: set B200_LAB to a shorter directory")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    address = f"{name}@b200-lab.invalid"
    # Two labs share the keyring, and the agent that one of them ends signs for the other, too.
    with locked(home / "b200-lab.lock", _SIGNING_S, f"{home} is in use"):
        try:
            if not _fingerprints(home, address):
                bound_by = ["--cert-digest-algo", DIGESTS.get(name, "SHA512")]
                _gpg(home, *bound_by, "--quick-generate-key", f"b200kit lab {name} <{address}>",
                     "ed25519", "sign", "never")  # fmt: skip
            yield SigningKey(home, _fingerprints(home, address)[0])
        finally:
            run(["gpgconf", "--kill", "all"], env={"GNUPGHOME": str(home)}, check=False)


def parse_fingerprints(colons: str) -> list[str]:
    """Return the primary keys' fingerprints in gpg's ``--with-colons`` output."""
    found, primary = [], False
    for fields in (line.split(":") for line in colons.splitlines()):
        if fields[0] == "fpr" and primary:
            found.append(fields[9])
        primary = fields[0] == "pub"
    return found


def _fingerprints(home: Path, address: str) -> list[str]:
    listing = ["gpg", "--batch", "--with-colons", "--list-keys", address]
    return parse_fingerprints(run(listing, env={"GNUPGHOME": str(home)}, check=False).stdout)


def _gpg(home: Path, *arguments: str | Path) -> str:
    options = ["--batch", "--no-tty", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
    return run(["gpg", *options, *arguments], env={"GNUPGHOME": str(home)}).stdout
