"""What decides whether an inventory is possible on a hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from b200kit.sizing.gpu_model import GpuModel


@dataclass(frozen=True)
class Hardware:
    """The facts of b200kit/catalog/hardware/NAME.yaml that decide it.

    *gpu_bytes* is the memory of one GPU, 0 where it is not known; *gpus* are those it is of, by
    PCI id; *virtual*: whether it is for virtual machines, None where it is for any machine.
    *power_w*: the lowest and the highest limit of a GPU in watts, where they are known.
    """

    name: str
    gpu_count: int
    minimum_driver: str
    gpu_bytes: int = 0
    gpus: Mapping[str, GpuModel] = field(default_factory=dict)
    virtual: bool | None = None
    power_w: tuple[int, int] | None = None
