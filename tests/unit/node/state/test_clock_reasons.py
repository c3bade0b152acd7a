"""Clocks event reasons: what slows a GPU is named, and no bit is dropped."""

from __future__ import annotations

import pynvml  # type: ignore[import-untyped]

from b200kit.node.state import clock_reasons


def test_bit_that_nvml_does_not_define_is_told_beside_those_that_slow_a_gpu() -> None:
    every = pynvml.nvmlClocksEventReasonAll
    assert clock_reasons.undefined(every) == ""
    assert [*clock_reasons.told_by(every)] == [*clock_reasons.SLOWED.values()]
    assert clock_reasons.told_by(0x8 | 0x600)[1:] == [clock_reasons.undefined(0x600)]
    assert "0x600" in clock_reasons.undefined(0x8 | 0x600)
