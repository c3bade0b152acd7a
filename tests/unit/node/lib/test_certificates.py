"""When the certificates of a text hold, as another reader of them says, and what is none."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from b200kit.node.facts.certificates import certificates
from b200kit.node.lib.certificates import CertificateValidity, validity
from b200kit.node.lib.timestamp import UTC
from tests.subtests import in_subtests
from tests.unit.certificates import pem

NOW = datetime(2026, 11, 27, 6, 0, tzinfo=UTC)


def day(year: int, month: int = 1, of: int = 1) -> datetime:
    """A moment in that day."""
    return datetime(year, month, of, 12, 30, 59, tzinfo=UTC)


# To 2049 a date has two digits of its year, then four (RFC 5280, 4.1.2.5).
@in_subtests(
    ("begins", "ends"),
    [
        (day(1950), day(1999)),
        (day(2000), day(2049, 12, 31)),
        (day(2026, 2, 28), day(2050)),
        (day(2051), day(9999, 12, 31)),
    ],
)
def test_dates_are_those_that_another_reader_finds(begins: datetime, ends: datetime) -> None:
    made = pem(begins, ends)
    other = x509.load_pem_x509_certificate(made)
    assert other.not_valid_after_utc == ends
    assert validity(made, "chain") == CertificateValidity(begins, ends)


def test_a_chain_holds_while_all_of_it_do_and_authorities_while_one_does() -> None:
    two = pem(day(2024), day(2026)) + b"-----BEGIN PRIVATE KEY-----\n" + pem(day(2025), day(2030))
    assert validity(two, "chain") == CertificateValidity(day(2025), day(2026))
    assert validity(two, "authorities") == CertificateValidity(day(2024), day(2030))


def element(tag: int, *content: bytes) -> bytes:
    """One of DER, shorter than 128 bytes."""
    whole = b"".join(content)
    return bytes([tag, len(whole)]) + whole


def bare(*dates: bytes, version: bytes = b"") -> bytes:
    """As little as a certificate can have before its dates, and the dates."""
    head = (element(0x02, b"\7"), element(0x30), element(0x30))
    der = element(0x30, element(0x30, version, *head, element(0x30, *dates)))
    lines = b"\n".join((b"-----BEGIN CERTIFICATE-----", base64.b64encode(der)))
    return lines + b"\n-----END CERTIFICATE-----\n"


BEGINS, ENDS = element(0x17, b"250101000000Z"), element(0x17, b"260101000000Z")


@pytest.mark.parametrize("version", [b"", element(0xA0, element(0x02, b"\2"))])
def test_a_certificate_of_the_first_version_has_no_number_of_it(version: bytes) -> None:
    held = validity(bare(BEGINS, ENDS, version=version), "chain")
    assert (held.begins.year, held.ends.year) == (2025, 2026)


@in_subtests(
    "text",
    [
        b"",
        b"hello",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        b"-----BEGIN CERTIFICATE-----\nhello\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\n\xff\n-----END CERTIFICATE-----\n",
        pem(day(2025), day(2030)) + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        bare(BEGINS),
        bare(BEGINS, element(0x17, b"261301000000Z")),
        bare(BEGINS, element(0x17, b"2601010000Z")),
        bare(BEGINS, element(0x17, b"260101000000+0100")),
        bare(BEGINS, element(0x18, b"260101000000Z")),
        bare(BEGINS, element(0x16, b"20260101000000Z")),
        bare(BEGINS, b"\x17\x89" + b"\xff" * 9),
    ],
)
def test_what_is_no_certificate_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="certificate"):
        validity(text, "authorities")


def test_a_certificate_that_was_cut_off_is_refused() -> None:
    whole = base64.b64decode(b"".join(pem(day(2025), day(2030)).splitlines()[1:-1]))
    for length in range(len(whole)):
        cut = base64.b64encode(whole[:length])
        with pytest.raises(ValueError, match="certificate"):
            validity(b"-----BEGIN CERTIFICATE-----\n%b\n-----END CERTIFICATE-----" % cut, "chain")


@in_subtests(
    ("begins", "ends", "fault", "warning"),
    [
        (-1, 31 * 86_400, False, False),
        (-1, 30 * 86_400, False, False),
        (-1, 30 * 86_400 - 1, False, True),
        (0, 0, False, True),
        (-2, -1, True, True),
        (1, 31 * 86_400, True, False),
    ],
)
def test_it_is_named_for_a_month_and_holds_to_its_last_second(
    begins: int, ends: int, fault: bool, warning: bool
) -> None:
    held = CertificateValidity(NOW + timedelta(seconds=begins), NOW + timedelta(seconds=ends))
    assert (bool(held.fault(NOW)), bool(held.warning(NOW))) == (fault, warning)


def test_what_is_read_of_a_node_is_dates_nothing_or_why_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(pem(day(2025), day(2030)))
    (tmp_path / "b").write_text("hello")
    names = [str(tmp_path / name) for name in "abc"]
    dates = {"begins": "2025-01-01T12:30:59Z", "ends": "2030-01-01T12:30:59Z"}
    assert certificates(dict.fromkeys(names, "chain")) == {
        names[0]: dates,
        names[1]: {"unmeasured": "ValueError: has no certificate"},
        names[2]: None,
    }
