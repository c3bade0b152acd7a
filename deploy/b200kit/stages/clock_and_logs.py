"""Clock and logs: one service that keeps the time, and logs that do not grow without end.

A time service that runs is respected, whichever it is. Where none does, systemd-timesyncd is
installed and started; where the inventory leaves the clock to another (a container's host, PTP),
nothing is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from b200kit.converge.stage import Change, DesiredState, Stage, converge
from b200kit.node.checks.host import clock
from b200kit.node.placement.layout import Replica
from b200kit.node.state.drift import File, NodeUnit, Package
from b200kit.run.node import Node, StageFailed
from b200kit.run.render import render

_TIMESYNCD = "/etc/systemd/timesyncd.conf.d/60-b200kit.conf"
_CHRONY = "/etc/chrony/sources.d/b200kit.sources"
_JOURNALD = "/etc/systemd/journald.conf.d/60-b200kit.conf"
_LOGROTATE = "/etc/logrotate.d/b200kit"
# Logs that would grow without end, by shell pattern, and why.
_LOGS = {
    "/var/log/b200kit-*.log": "apt, engine and storage steps of our runs",
    "/var/log/fabricmanager.log": "the fabric manager keeps it open; LOG_MAX_ROTATE_COUNT of its "
    "own covers its restarts",
    "/var/log/nvlsm.log": "the subnet manager logs every sweep",
    "/var/log/nvidia-dcgm/*.log": "nv-hostengine keeps its log open",
    "/var/log/nvidia-*.log": "installers and daemons of the driver",
}
_FAULT_JOURNAL_BYTES = 5 << 30
"""More than SystemMaxUse and the file being written: journald does not hold its limit."""
_FAULT_BYTES = 1 << 30
"""A file of this size has not been turned over: logrotate does not run, or fails."""


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """Limits for journal and log files; the time service with its servers."""
    del layout
    files = [
        File(
            _JOURNALD,
            render("host/journald.conf.j2"),
            notify=("restart:systemd-journald.service",),
        ),
        File(_LOGROTATE, render("host/logrotate.conf.j2", logs=_LOGS)),
    ]
    packages, units = [Package("logrotate")], [NodeUnit("logrotate.timer")]
    if _managed(node):
        service = _service(node)
        files += _servers(node, service)
        if service == clock.DEFAULT:
            packages.append(Package("systemd-timesyncd"))
        units.append(NodeUnit(service))
    return DesiredState(
        files=tuple(files),
        packages=tuple(packages),
        units=tuple(units),
        probe_files=(_CHRONY, _TIMESYNCD),
        probe_units=clock.SERVICES,
        observe_request={"logs": list(_LOGS)},
    )


def expected(node: Node) -> dict[str, Any]:
    """What the gate judges of clock and logs, besides that the clock is synchronized."""
    return {
        "time_services": list(clock.SERVICES) if _managed(node) else None,
        "logs": {
            "patterns": list(_LOGS),
            "file_bytes": _FAULT_BYTES,
            "journal_bytes": _FAULT_JOURNAL_BYTES,
        },
    }


def _managed(node: Node) -> bool:
    """Whether the clock is this node's own business."""
    return node.spec.clock_synchronized or bool(node.spec.time_servers)


def _service(node: Node) -> str:
    """The time service: the one that runs, else one that is installed, else the default."""
    units = (node.state or {}).get("units")
    observed = units if isinstance(units, dict) else {}
    return next(iter([*clock.running(observed), *clock.installed(observed)]))


def _servers(node: Node, service: str) -> list[File]:
    """The inventory's time servers as the service's own drop-in."""
    servers = node.spec.time_servers
    if not servers:
        return []
    notify = (f"restart:{service}",)
    if service == clock.DEFAULT:
        return [File(_TIMESYNCD, render("host/timesyncd.conf.j2", servers=servers), notify=notify)]
    if service.startswith("chrony"):
        return [File(_CHRONY, render("host/chrony.sources.j2", servers=servers), notify=notify)]
    raise StageFailed(
        f"{service} runs and takes no drop-in: give it the servers in its own configuration and "
        "leave time_servers empty, or remove it"
    )


def plan(node: Node) -> list[Change]:
    """Files, packages, restarts, units; a node that runs another service keeps it."""
    return converge(node, desired(node, ()))


STAGE = Stage(name="clock and logs", desired=desired, plan=plan)
