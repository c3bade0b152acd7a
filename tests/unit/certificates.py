"""Certificates of any dates, for tests of those who read them."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding


@cache
def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def pem(begins: datetime, ends: datetime) -> bytes:
    """A certificate of this time, signed by itself."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "n07.example.internal")])
    made = x509.CertificateBuilder(name, name, _key().public_key(), 7, begins, ends)
    return made.sign(_key(), hashes.SHA256()).public_bytes(Encoding.PEM)


def lasting(now: datetime, **left: float) -> bytes:
    """One of a day ago that ends so long from now, as `timedelta` takes it."""
    ends = now + timedelta(**left)
    return pem(min(now, ends) - timedelta(days=1), ends)
