"""Dispatch of the node program's commands, each loaded only when it is asked for.

Every command is a function ``main(args: list[str]) -> int`` that returns the exit status.
"""

from __future__ import annotations

import sys
from importlib import import_module

COMMANDS = {
    "observe": "deploy.node.observe:main",
    "gate": "deploy.node.gate:main",
    "bring-up": "deploy.node.bring_up:main",
    "warm": "deploy.node.warm:main",
    "measure": "deploy.node.measure:main",
    "bench": "deploy.node.bench:main",
    "canary": "deploy.node.canary:main",
    "watch": "deploy.node.watch:main",
    "_evidence": "deploy.node.evidence:main",
    "quarantine": "deploy.node.quarantine:main",
    "drain": "deploy.node.drain:main",
    "bundle": "deploy.node.bundle:main",
    "gpu-daemons": "deploy.node.reset_gpus:main",
    "peers": "deploy.node.peers:main",
    "rotation": "deploy.node.rotation:main",
    "roll": "deploy.node.roll:main",
    "bandwidth": "deploy.node.bandwidth:main",
    "put": "deploy.node.put:main",
    "firewall": "deploy.node.firewall_trial:main",
    "fetch": "deploy.node.fetch:main",
    "weights": "deploy.node.weights:main",
    "share": "deploy.node.share:main",
    "caches": "deploy.node.caches:main",
    "packed-caches": "deploy.node.pack_fetch:main",
    "offered": "deploy.node.offered:main",
    "apt-ready": "deploy.node.apt:ready",
    "apt-check": "deploy.node.apt:check",
    "apt-why": "deploy.node.apt_why:main",
    "driver-log": "deploy.node.driver_log:main",
    "acs-off": "deploy.node.acs_off:main",
    "merge-json": "deploy.node.merge_json:main",
    "containerd-cdi": "deploy.node.containerd_cdi:main",
    "gpu-free": "deploy.node.gpu_free:main",
    "_gpu-holders": "deploy.node.gpu_holders:main",
    "_nvml": "deploy.node.nvml_worker:main",
    "_gpus": "deploy.node.gpu_sampler:main",
}
"""Command to ``module:function``; a leading underscore marks what only the program itself calls."""


def main(argv: list[str]) -> int:
    """Run one command; 2 and a usage line on stderr when it is missing or unknown."""
    if not argv or argv[0] not in COMMANDS:
        names = ", ".join(name for name in COMMANDS if not name.startswith("_"))
        print(f"usage: node.pyz COMMAND ...; commands: {names}", file=sys.stderr)
        return 2
    module, function = COMMANDS[argv[0]].split(":")
    status: int = getattr(import_module(module), function)(argv[1:])
    return status
