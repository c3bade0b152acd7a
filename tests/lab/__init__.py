"""The lab: simulated B200 nodes on this machine, with the mirror they need. See docs/lab.md."""

from __future__ import annotations

from tests.lab.faults import (
    block_mirror,
    large_disk,
    new_host_key,
    plug,
    publish_vendor,
    small_disk,
    unblock_mirror,
    unplug,
)
from tests.lab.lab import (
    bmc_down,
    bmc_up,
    down,
    freeze,
    inject,
    kill,
    power_on,
    reset_host,
    run,
    set_scenario,
    status,
    thaw,
    up,
)
from tests.lab.live import up_live
from tests.lab.paths import LabError, LabPaths, lab_paths
from tests.lab.snapshots import save
from tests.lab.supply.engine import NoEngineError

__all__ = [
    "LabError",
    "LabPaths",
    "NoEngineError",
    "block_mirror",
    "bmc_down",
    "bmc_up",
    "down",
    "freeze",
    "inject",
    "kill",
    "lab_paths",
    "large_disk",
    "new_host_key",
    "plug",
    "power_on",
    "publish_vendor",
    "reset_host",
    "run",
    "save",
    "set_scenario",
    "small_disk",
    "status",
    "thaw",
    "unblock_mirror",
    "unplug",
    "up",
    "up_live",
]
