"""Bit error rates of an NVLink 5 link as the driver packs them, and DCGM's limits for them. Pure.

NVML fields 220 (effective) and 222 (symbol) hold mantissa x 10^-exponent: bits 0-7 are the
exponent, bits 8-11 the mantissa. A link without an error reads 15 x 10^-255, raw 0xFFF. Layout:
nvml.h; limits: NVIDIA/DCGM common/DcgmUtilities.cpp and modules/health/DcgmHealthWatch.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass

NO_ERRORS = 0xFFF
EXPONENT_BITS = 8


@dataclass(frozen=True)
class BitErrorRate:
    """Errors a bit: mantissa (0-15) x 10^-exponent (0-255)."""

    mantissa: int
    exponent: int

    def __str__(self) -> str:
        """As people and nvidia-smi write it: "3e-11"."""
        return f"{self.mantissa}e-{self.exponent}"


def decode(raw: int) -> BitErrorRate | None:
    """The rate of a raw reading of twelve bits, None when there was no error."""
    if raw == NO_ERRORS:
        return None
    return BitErrorRate(raw >> EXPONENT_BITS, raw & 0xFF)


def effective_is_bad(rate: BitErrorRate | None, worst: int) -> bool:
    """Whether an effective rate is above 10^-worst (DCGM: 12).

    A mantissa of 0 with a smaller exponent is bad too, as in DCGM: no link reports such a rate.
    """
    if rate is None:
        return False
    return rate.exponent < worst or rate.mantissa * 10**worst > 10**rate.exponent


def symbol_is_bad(rate: BitErrorRate | None, floor: int) -> bool:
    """Whether a symbol rate is one of real errors: its exponent is below the floor (DCGM: 238)."""
    return rate is not None and rate.mantissa != 0 and rate.exponent < floor
