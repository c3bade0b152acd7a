"""When the certificates of a PEM text hold, by the dates in each (RFC 5280, section 4.1). Pure.

The standard library tells the dates of a peer's certificate, and not of a file's.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from b200kit.node.lib import timestamp

SOON = timedelta(days=30)
"""So long before its end a file is named."""
Kind = Literal["chain", "authorities"]
"""Of a chain all certificates are needed; of authorities one is, so that the last to end counts."""
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18
_TIME = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})Z")


@dataclass(frozen=True)
class CertificateValidity:
    """The first and the last moment at which the certificates of a file hold."""

    begins: datetime
    ends: datetime

    def fault(self, now: datetime) -> str:
        """Why they don't hold now; empty where they do."""
        if now < self.begins:
            return f"is not valid before {timestamp.text(self.begins)}"
        return f"expired on {timestamp.text(self.ends)}" if now > self.ends else ""

    def warning(self, now: datetime) -> str:
        """That they end soon; empty where they don't."""
        left = self.ends - now
        return f"ends on {self.ends:%Y-%m-%d}, in {left.days} days" if left < SOON else ""


def validity(pem: bytes, kind: Kind) -> CertificateValidity:
    """When a file's certificates hold; ValueError where it has none, or one that is none."""
    blocks = _PEM.findall(pem)
    if not blocks:
        raise ValueError("has no certificate")
    try:
        found = [_dates(base64.b64decode(b"".join(b.split()), validate=True)) for b in blocks]
    except (ValueError, IndexError):
        raise ValueError("has a certificate that cannot be read") from None
    begins, ends = zip(*found, strict=True)
    if kind == "chain":
        return CertificateValidity(max(begins), min(ends))
    return CertificateValidity(min(begins), max(ends))


def _dates(der: bytes) -> tuple[datetime, datetime]:
    """notBefore and notAfter, behind version, serial number, signature and issuer."""
    body = _part(_part(der, 0)[1], 0)[1]
    at = 0
    for _ in range(4 if body[0] == _VERSION else 3):
        at = _part(body, at)[2]
    dates = _part(body, at)[1]
    tag, begins, at = _part(dates, 0)
    return _moment(tag, begins), _moment(*_part(dates, at)[:2])


def _part(der: bytes, at: int) -> tuple[int, bytes, int]:
    """Tag and content of what begins at a place, and where it ends."""
    length, begin = der[at + 1], at + 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(der[at + 2 : begin], "big")
    if begin + length > len(der):
        raise ValueError
    return der[at], der[begin : begin + length], begin + length


def _moment(tag: int, content: bytes) -> datetime:
    """The time of a certificate, in one of its two forms."""
    text = content.decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if text >= "50" else "20") + text
    found = _TIME.fullmatch(text) if tag in (_UTC_TIME, _GENERALIZED_TIME) else None
    if not found:
        raise ValueError
    return timestamp.of(found.groups())
