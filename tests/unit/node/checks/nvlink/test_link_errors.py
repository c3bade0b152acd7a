"""Bit error rates: the packing, and both limits at their edges."""

from __future__ import annotations

import pytest

from b200kit.node.checks.nvlink import link_errors
from b200kit.node.checks.nvlink.link_errors import BitErrorRate
from tests.subtests import in_subtests


@pytest.mark.parametrize(
    ("raw", "mantissa", "exponent"), [(0x10C, 1, 12), (0x30B, 3, 11), (0xF00, 15, 0), (0, 0, 0)]
)
def test_a_raw_reading_is_mantissa_and_exponent(raw: int, mantissa: int, exponent: int) -> None:
    assert link_errors.decode(raw) == BitErrorRate(mantissa, exponent)


def test_all_ones_is_no_error() -> None:
    assert link_errors.decode(4095) is None


@in_subtests(
    ("mantissa", "exponent", "bad"),
    [
        (1, 11, True),
        (0, 11, True),
        (2, 12, True),
        (1, 12, False),
        (11, 13, True),
        (10, 13, False),
        (15, 14, False),
        (15, 254, False),
    ],
)
def test_effective_rate_is_bad_above_the_worst(mantissa: int, exponent: int, bad: bool) -> None:
    assert link_errors.effective_is_bad(BitErrorRate(mantissa, exponent), 12) is bad


@in_subtests(
    ("mantissa", "exponent", "bad"),
    [(1, 237, True), (15, 12, True), (15, 238, False), (1, 255, False), (0, 12, False)],
)
def test_symbol_rate_is_bad_below_the_floor(mantissa: int, exponent: int, bad: bool) -> None:
    assert link_errors.symbol_is_bad(BitErrorRate(mantissa, exponent), 238) is bad


def test_a_link_without_errors_is_good() -> None:
    assert not link_errors.effective_is_bad(None, 12)
    assert not link_errors.symbol_is_bad(None, 238)


def test_a_rate_is_written_as_nvidia_smi_does() -> None:
    assert str(BitErrorRate(3, 11)) == "3e-11"
