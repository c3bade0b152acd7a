"""The health mask of nvmlGpuFabricInfo, decoded field by field.

Layout of nvml.h NVML_GPU_FABRIC_HEALTH_MASK_*. A mask of 0xAA says FALSE four times and 0x80 once:
both are healthy. The rule is DCGM's (modules/health/DcgmHealthWatch.cpp): a two-bit field is bad
when it is TRUE, the configuration field when it is neither "not supported" nor "none".
"""

from __future__ import annotations

NOT_SUPPORTED, TRUE, FALSE = 0, 1, 2
TWO_BIT_SHIFTS = {
    "degraded bandwidth": 0,
    "route recovery in progress": 2,
    "route unhealthy": 4,
    "access timeout recovery": 6,
}
CONFIGURATION_SHIFT = 8
CONFIGURATIONS = {
    0: "not supported",
    1: "none",
    2: "incorrect system GUID",
    3: "incorrect chassis serial number",
    4: "no partition",
    5: "insufficient NVLinks",
    6: "incompatible GPU firmware",
    7: "invalid location",
    8: "GPU state invalid",
}
GOOD_CONFIGURATIONS = (0, 1)
WORDS = {NOT_SUPPORTED: "not supported", TRUE: "true", FALSE: "false", 3: "undefined"}


def decode(mask: int) -> dict[str, str]:
    """Every field's name and word, for people."""
    fields = {name: WORDS[mask >> shift & 3] for name, shift in TWO_BIT_SHIFTS.items()}
    number = mask >> CONFIGURATION_SHIFT & 0xF
    return {**fields, "incorrect configuration": CONFIGURATIONS.get(number, f"code {number}")}


def faults(mask: int) -> list[str]:
    """What the mask says is wrong, in words; [] when nothing is."""
    found = [name for name, shift in TWO_BIT_SHIFTS.items() if mask >> shift & 3 == TRUE]
    number = mask >> CONFIGURATION_SHIFT & 0xF
    if number not in GOOD_CONFIGURATIONS:
        found.append(f"incorrect configuration: {CONFIGURATIONS.get(number, f'code {number}')}")
    return found
