"""GPU memory: size, ECC errors of DRAM and SRAM, and row remapping. Spare rows: see repair.py."""

from __future__ import annotations

from b200kit.node.checks.factories import at_least, at_most, is_set
from b200kit.node.checks.judge import check
from b200kit.node.state.verdict import Action

check("memory.size")(at_least(("memory_total_mib",), "memory.floor", "memory", Action.REPLACE))
check("memory.bar1")(at_least(("bar1_total_mib",), "memory.bar1", "BAR1 aperture", Action.NONE))
check("ecc.enabled")(is_set(("ecc",), "ecc.enabled", "has ECC off", Action.RESET_GPU))
check("ecc.volatile")(
    at_most(
        ("ecc_volatile_uncorrected",),
        "ecc.volatile_uncorrected_max",
        "uncorrected ECC errors since the driver was loaded",
        Action.RESET_GPU,
    )
)
check("ecc.aggregate")(
    at_most(
        ("ecc_aggregate_uncorrected",),
        "ecc.aggregate_uncorrected_max",
        "uncorrected ECC errors over its life",
        Action.REPLACE,
    )
)
check("ecc.pending")(
    is_set(
        ("ecc_pending",),
        "ecc.enabled",
        "will have ECC off after its next reset: set it with nvidia-smi -e 1",
        Action.RESET_GPU,
    )
)
check("ecc.sram")(
    is_set(
        ("sram", "threshold_exceeded"),
        "ecc.sram_threshold_exceeded",
        "has more SRAM errors than NVIDIA's threshold for replacement",
        Action.REPLACE,
    )
)
check("ecc.sram-volatile")(
    at_most(
        ("sram", "volatile_uncorrected"),
        "ecc.sram_volatile_uncorrected_max",
        "uncorrected SRAM errors since the driver was loaded",
        Action.RESET_GPU,
    )
)
check("ecc.sram-aggregate")(
    at_most(
        ("sram", "aggregate_uncorrected"),
        "ecc.sram_aggregate_uncorrected_max",
        "uncorrected SRAM errors over its life",
        Action.REPLACE,
    )
)
check("remap.failure")(
    is_set(("remap", "failure"), "remap.failure", "failed to remap a memory row", Action.REPLACE)
)
check("remap.pending")(
    is_set(("remap", "pending"), "remap.pending", "has a row remap waiting", Action.RESET_GPU)
)
check("remap.count")(
    at_most(
        ("remap", "uncorrectable"),
        "remap.uncorrectable_max",
        "memory rows remapped for uncorrectable errors",
        Action.REPLACE,
    )
)
