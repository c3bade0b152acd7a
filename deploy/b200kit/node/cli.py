"""Dispatch of the node program's commands, each loaded only when it is asked for.

Every command is a function ``main(args: list[str]) -> int`` that returns the exit status.
"""

from __future__ import annotations

import sys
from importlib import import_module

COMMANDS = {
    "observe": "b200kit.node.facts.observe:main",
    "gate": "b200kit.node.gate:main",
    "bring-up": "b200kit.node.fabric.bring_up:main",
    "warm": "b200kit.node.serving.warmup.hook:main",
    "measure": "b200kit.node.latency.smoke:main",
    "ask": "b200kit.node.client.question:main",
    "correctness-check": "b200kit.node.client.correctness:main",
    "agent": "b200kit.node.agent.loop:main",
    "health-check": "b200kit.node.agent.loop:ask",
    "_health-check": "b200kit.node.agent.look:main",
    "standing": "b200kit.node.status.standing:main",
    "status": "b200kit.node.status.server:main",
    "hook": "b200kit.node.status.hook:main",
    "share": "b200kit.node.status.shares:main",
    "renew": "b200kit.node.renewal.command:main",
    "_evidence": "b200kit.node.agent.hang_evidence:main",
    "quarantine": "b200kit.node.maintenance.quarantine:main",
    "slurm-check": "b200kit.node.maintenance.slurm_check:main",
    "drain": "b200kit.node.serving.gateway.drain:main",
    "support-bundle": "b200kit.node.maintenance.support_bundle:main",
    "gpu-daemons": "b200kit.node.maintenance.reset_gpus:main",
    "acceptance-network": "b200kit.node.acceptance.network_facts:main",
    "acceptance-pair": "b200kit.node.acceptance.rdma:main",
    "peers": "b200kit.node.serving.group_peers:main",
    "rotation": "b200kit.node.serving.gateway.rotation:main",
    "rolling-restart": "b200kit.node.serving.gateway.rolling_restart:main",
    "bandwidth": "b200kit.node.bandwidth.run:main",
    "acceptance": "b200kit.node.acceptance.run:main",
    "put": "b200kit.node.lib.put_files:main",
    "note-masked": "b200kit.node.lib.installed:note_masked",
    "removal": "b200kit.node.maintenance.removal:main",
    "firewall": "b200kit.node.host.firewall_trial:main",
    "fetch": "b200kit.node.weights.fetch:main",
    "weights": "b200kit.node.facts.models:main",
    "weights-server": "b200kit.node.weights.server:main",
    "compile-cache": "b200kit.node.serving.compile_cache:main",
    "packages": "b200kit.node.packages.transaction:main",
    "apt-trial": "b200kit.node.packages.apt_trial:main",
    "driver-log": "b200kit.node.packages.module_log:main",
    "acs-off": "b200kit.node.host.acs_off:main",
    "power-limit": "b200kit.node.host.power_limit:main",
    "docker-cdi": "b200kit.node.host.docker_cdi:main",
    "engine-probe": "b200kit.node.serving.engine_probe.run:main",
    "_engine-step": "b200kit.node.serving.engine_probe.run:one",
    "gpu-free": "b200kit.node.serving.gpu_free:main",
    "_gpu-holders": "b200kit.node.serving.gpu_holders:main",
    "_nvml": "b200kit.node.facts.nvml.worker:main",
    "_gpus": "b200kit.node.latency.gpu_sampler:main",
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
