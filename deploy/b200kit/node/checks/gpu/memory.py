"""GPU memory: size, ECC errors of DRAM and SRAM, and row remapping. For spare rows see
row_remapping.py.
"""

from __future__ import annotations

from b200kit.node.checks.gpu_rows import Flag, Floor, Limit, register
from b200kit.node.checks.node_scale import SETTING, OnNode
from b200kit.node.state.verdict import Action

register(
    (
        Floor(
            "memory.size",
            "memory_total_mib",
            "memory.floor",
            "memory",
            Action.REPLACE,
            on_node=OnNode(action=Action.REBOOT),
        ),
        Floor("memory.bar1", "bar1_total_mib", "memory.bar1", "BAR1 aperture", Action.NONE),
        Flag("ecc.enabled", "ecc", "ecc.enabled", "has ECC off", Action.RESET_GPU, on_node=SETTING),
        Limit(
            "ecc.volatile",
            "ecc_volatile_uncorrected",
            "ecc.volatile_uncorrected_max",
            "uncorrected ECC errors since the driver was loaded",
            Action.RESET_GPU,
        ),
        Limit(
            "ecc.aggregate",
            "ecc_aggregate_uncorrected",
            "ecc.aggregate_uncorrected_max",
            "uncorrected ECC errors over its life",
            Action.REPLACE,
        ),
        Flag(
            "ecc.pending",
            "ecc_pending",
            "ecc.enabled",
            "will have ECC off after its next reset: set it with nvidia-smi -e 1",
            Action.RESET_GPU,
            on_node=SETTING,
        ),
        Flag(
            "ecc.sram",
            "sram.threshold_exceeded",
            "ecc.sram_threshold_exceeded",
            "has more SRAM errors than NVIDIA's threshold for replacement",
            Action.REPLACE,
        ),
        Limit(
            "ecc.sram-volatile",
            "sram.volatile_uncorrected",
            "ecc.sram_volatile_uncorrected_max",
            "uncorrected SRAM errors since the driver was loaded",
            Action.RESET_GPU,
        ),
        Limit(
            "ecc.sram-aggregate",
            "sram.aggregate_uncorrected",
            "ecc.sram_aggregate_uncorrected_max",
            "uncorrected SRAM errors over its life",
            Action.REPLACE,
        ),
        Flag(
            "remap.failure",
            "remap.failure",
            "remap.failure",
            "failed to remap a memory row",
            Action.REPLACE,
        ),
        Flag(
            "remap.pending",
            "remap.pending",
            "remap.pending",
            "has a row remap waiting",
            Action.RESET_GPU,
        ),
        Limit(
            "remap.count",
            "remap.uncorrectable",
            "remap.uncorrectable_max",
            "memory rows remapped for uncorrectable errors",
            Action.REPLACE,
        ),
    )
)
