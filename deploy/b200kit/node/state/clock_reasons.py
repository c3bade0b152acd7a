"""Why a GPU's clocks are lower than they could be: the bits of its clocks event reasons. Pure."""

from __future__ import annotations

# nvml.h, nvmlClocksEventReasons: what slows a GPU against its will. Idle, application clocks and
# the power cap that every full load meets are none.
SLOWED = {0x08: "hardware slowdown", 0x20: "software thermal slowdown",
          0x40: "hardware thermal slowdown", 0x80: "power brake"}  # fmt: skip
_DEFINED = 0x1FF  # nvml.h, nvmlClocksEventReasonAll


def slowed_by(reasons: int) -> list[str]:
    """Those among the event reasons that slow a GPU against its will, in words."""
    return [words for bit, words in SLOWED.items() if reasons & bit]


def undefined(reasons: int) -> str:
    """The event reasons that nvml.h does not define, in words; "" for none.

    What such a bit means nobody knows here: it is shown, and not judged.
    """
    bits = reasons & ~_DEFINED
    return f"undefined clocks event reasons {bits:#x}" if bits else ""


def told_by(reasons: int) -> list[str]:
    """What a person is told of event reasons: those that slow a GPU, and those not defined."""
    return [*slowed_by(reasons), *filter(None, [undefined(reasons)])]
