"""The health mask of nvmlGpuFabricInfo, decoded field by field.

Layout of nvml.h NVML_GPU_FABRIC_HEALTH_MASK_*. A mask of 0xAA says FALSE four times and 0x80 once:
both are healthy. Each field has values that are good; any other is not, also one that nvml.h does
not define, and so is a bit of no field. Which of the defined ones are a fault, the hardware says:
DCGM (modules/health/DcgmHealthWatch.cpp) judges the first five fields.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class MaskField:
    """A field of the mask, from `shift` on; `words` are its values, those in `good` are fine."""

    name: str
    shift: int
    words: tuple[str, ...] = ("not supported", "true", "false")
    good: tuple[int, ...] = (0, 2)
    bits: int = 2

    def value(self, mask: int) -> int:
        """Its number in a mask."""
        return mask >> self.shift & (1 << self.bits) - 1

    def word(self, mask: int) -> str:
        """Its value in words."""
        number = self.value(mask)
        return self.words[number] if number < len(self.words) else f"code {number}"


FIELDS = (
    MaskField("degraded bandwidth", 0),
    MaskField("route recovery in progress", 2),
    MaskField("route unhealthy", 4),
    MaskField("access timeout recovery", 6),
    MaskField(
        "incorrect configuration",
        8,
        (
            "not supported",
            "none",
            "incorrect system GUID",
            "incorrect chassis serial number",
            "no partition",
            "insufficient NVLinks",
            "incompatible GPU firmware",
            "invalid location",
            "GPU state invalid",
        ),
        good=(0, 1),
        bits=4,
    ),
    MaskField("partition assigned", 12, good=(0, 1)),
    MaskField("fabric manager", 14, ("not supported", "connected", "disconnected"), good=(0, 1)),
)
_KNOWN_BITS = 16


def decode(mask: int) -> dict[str, str]:
    """Every field's name and word, and the bits that are of none, for people."""
    fields = {field.name: field.word(mask) for field in FIELDS}
    unknown = mask >> _KNOWN_BITS << _KNOWN_BITS
    return {**fields, **({"unknown bits": f"{unknown:#x}"} if unknown else {})}


def faults(mask: int, judged: Collection[str]) -> dict[str, bool]:
    """What is not good, in words, each with whether it is a fault.

    What nobody knows to be good always is one; a defined value of a field that is not `judged` is
    none.
    """
    words = decode(mask)
    found = {}
    for field in FIELDS:
        number = field.value(mask)
        if number not in field.good:
            defined = number < len(field.words)
            found[f"{field.name}: {words[field.name]}"] = field.name in judged or not defined
    if bits := words.get("unknown bits"):
        found[f"unknown bits: {bits}"] = True
    return found
