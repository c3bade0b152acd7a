"""Host keys that an authority vouches for (`@cert-authority` in known_hosts), as plain keys.

pyinfra's SSH library takes no host certificates. So a host's certificate is asked for before the
connection, as anybody may (ssh-keyscan -c), and judged as sshd(8) and PROTOCOL.certkeys of OpenSSH
say: signed by an authority of that file, of a host, of this name, in its time. The key in it is the
one that the host must then prove to have.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from b200kit.run import known_hosts
from b200kit.run.login import Login, keyscan

# ssh-keyscan 9.2 writes no name before a certificate.
_CERTIFICATE = re.compile(r"\b\S+-cert-v01@openssh\.com [A-Za-z0-9+/=]+")


def certified(text: str, login: Login, names: Collection[str]) -> tuple[str, ...]:
    """The keys, each "type base64", that authorities of a known_hosts file vouch for at a host."""
    named = [known_hosts.name_of(name, login.port or 22) for name in names]
    trusted = known_hosts.authorities(text, named)
    if not trusted:
        return ()
    found = _CERTIFICATE.findall(keyscan(login, "-c"))
    believed = (believe(shown, trusted, names, time.time()) for shown in found)
    return tuple(key for key in believed if key and key not in known_hosts.revoked(text))


def believe(shown: str, trusted: Collection[str], names: Collection[str], now: float) -> str | None:
    """The key of a certificate, "type base64"; None where it proves nothing of these names."""
    try:
        found = load_ssh_public_identity(shown.encode())
        if not isinstance(found, SSHCertificate) or found.type is not SSHCertificateType.HOST:
            return None
        found.verify_cert_signature()
        authority = _openssh(found.signature_key())
    except (ValueError, InvalidSignature):
        return None
    principals = {name.decode("utf-8", "replace").lower() for name in found.valid_principals}
    is_named = any(name.lower() in principals for name in names)
    in_time = found.valid_after <= now < found.valid_before
    sound = authority in trusted and is_named and in_time and not found.critical_options
    return _openssh(found.public_key()) if sound else None


def _openssh(key: object) -> str:
    made: bytes = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)  # type: ignore[attr-defined]
    return made.decode()
