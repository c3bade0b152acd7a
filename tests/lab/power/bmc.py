"""The lab hosts' management controller: started and stopped, with its certificate and password.

One service for all hosts, each a system of its own, on the bridge; HTTP basic auth over TLS.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt

from tests.lab.daemon import Daemon
from tests.lab.paths import BMC_PORT, BRIDGE_ADDRESS, LabPaths
from tests.lab.shell import run

USER = "b200"
ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Service:
    """A Redfish emulator: its directory, and where it listens."""

    directory: Path
    address: str = BRIDGE_ADDRESS
    port: int = BMC_PORT
    # The file of machines it stands before; None: the lab's hosts.
    machines: Path | None = None

    @property
    def url(self) -> str:
        """What an inventory calls it."""
        return f"https://{self.address}:{self.port}"

    @property
    def certificate(self) -> Path:
        """Its self-signed certificate, PEM."""
        return self.directory / "certificate.pem"

    @property
    def password(self) -> Path:
        """The password of USER (test-only secret, mode 0600)."""
        return self.directory / "password"

    def fingerprint(self) -> str:
        """SHA-256 of its certificate, hexadecimal."""
        pem = self.certificate.read_text("ascii")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()

    def entry(self) -> dict[str, str]:
        """What ``lab.json`` says of it: no password, only where that is."""
        return {
            "url": self.url,
            "user": USER,
            "password": str(self.password),
            "certificate": str(self.certificate),
        }

    def start(self) -> None:
        """Start it unless it runs; returns when it listens. LabError with its last words."""
        if self.pid() is not None:
            return
        self._prepare()
        command: list[str | Path] = [sys.executable, "-m", "tests.lab.power.bmc_emulator"]
        command += [self.directory / "config.py", *([self.machines] if self.machines else [])]
        self._daemon().start(command, self._listens, {**os.environ, "PYTHONPATH": str(ROOT)})

    def stop(self) -> None:
        """Stop it, if it runs, and return when it is gone."""
        self._daemon().stop()

    def pid(self) -> int | None:
        """Its process id if it is alive."""
        return self._daemon().pid()

    def _daemon(self) -> Daemon:
        return Daemon("redfish", self.directory)

    def _listens(self) -> bool:
        try:
            with socket.create_connection((self.address, self.port), timeout=1):
                return True
        except OSError:
            return False

    def _prepare(self) -> None:
        """Password, certificate and configuration, made once."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.password.exists():
            self.password.touch(mode=0o600)
            self.password.write_text(f"bmc-{secrets.token_hex(16)}\n")
        entry = bcrypt.hashpw(self.password.read_bytes().strip(), bcrypt.gensalt(4)).decode()
        (self.directory / "users").write_text(f"{USER}:{entry}\n")
        key = self.directory / "key.pem"
        if not self.certificate.exists():
            run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                 "-nodes", "-days", "3650", "-subj", "/CN=b200-lab-bmc", "-keyout", key,
                 "-addext", f"subjectAltName=IP:{self.address}", "-out", self.certificate],
            )  # fmt: skip
        settings = {
            "SUSHY_EMULATOR_LISTEN_IP": self.address,
            "SUSHY_EMULATOR_LISTEN_PORT": self.port,
            "SUSHY_EMULATOR_SSL_CERT": str(self.certificate),
            "SUSHY_EMULATOR_SSL_KEY": str(key),
            "SUSHY_EMULATOR_AUTH_FILE": str(self.directory / "users"),
            "SUSHY_EMULATOR_STATE_DIR": str(self.directory),
        }
        lines = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
        (self.directory / "config.py").write_text(lines)


def service(lab: LabPaths) -> Service:
    """The lab's own."""
    return Service(lab.bmc)


def set_fault(lab: LabPaths, name: str, fault: str | None) -> None:
    """Let a host's controller fail ("stuck", "deaf", "bare"), or be sound again."""
    path = lab.bmc / "faults.json"
    faults: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({**faults, name: fault}))
    os.replace(fresh, path)
