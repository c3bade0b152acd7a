"""Host: package sources, node program, boot-time modules, and what must be out of the way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from b200kit.catalog import hardware
from b200kit.converge import apt
from b200kit.converge.stage import Change, DesiredState, Stage, converge
from b200kit.inventory import openpgp
from b200kit.inventory.keys.parts import Repository
from b200kit.node.facts.dpkg_state import unfinished
from b200kit.node.placement.layout import Replica
from b200kit.node.state.drift import File, Package
from b200kit.node.state.view import StateView
from b200kit.readiness.host import SERVICES
from b200kit.run import zipapp
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import INSTALLED, RemoteError
from b200kit.run.render import render
from b200kit.serving import compile_tools

# kmod and numactl: NVLink5 needs ib_umad at boot, `vllm serve --numa-bind` runs numactl;
# python3-venv: the engine lives in its own environment.
_PACKAGES = (Package("numactl"), Package("python3-venv"), Package("kmod"))
_STATUS = re.compile(r"^status: (.+)$", re.MULTILINE)


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """Sources with their keys, modules at boot, no unattended upgrades."""
    del layout
    files = [_source(repository) for repository in node.spec.repositories]
    files += [
        File(INSTALLED, zipapp.build()[0], 0o755),
        # The modules are loaded at boot, before the fabric manager looks for them.
        File(
            "/etc/modules-load.d/b200kit.conf",
            render("host/modules-load.conf.j2", fabric=_runs_the_fabric(node)),
            notify=("reboot",),
        ),
        # The last that sets a value wins.
        File("/etc/apt/apt.conf.d/zz-b200kit", render("host/apt.conf.j2")),
        # Read only where needrestart or cloud-init is or comes; a file alone does nothing.
        File("/etc/cloud/cloud.cfg.d/zz-b200kit.cfg", render("host/cloud-init.cfg.j2")),
        File("/etc/needrestart/conf.d/60-b200kit.conf", render("host/needrestart.conf.j2")),
    ]
    packages = (*_PACKAGES, *compile_tools.packages(node.spec))
    return DesiredState(files=tuple(files), packages=packages, probe_units=SERVICES)


def _runs_the_fabric(node: Node) -> bool:
    """Whether a fabric manager runs on such a node."""
    return "fabric.units" in hardware.load(node.spec.hardware)["expect"]


def _source(repository: Repository) -> File:
    """Its list, with the pinned key in it, encoded again: apt reads the bytes that were checked."""
    text = Path(repository.key).read_text(errors="replace")
    try:
        key = openpgp.embedded(text, repository.fingerprint)
    except ValueError as wrong:
        raise StageFailed(f"{repository.key} {wrong}, by now") from None
    source = render("apt/repository.sources.j2", repository=repository, key=key)
    return File(apt.source_file(repository.name), source)


def plan(node: Node) -> list[Change]:
    """Files first, then the packages they make installable."""
    begun = StateView(node.state or {}).known(bool, "readiness", "first_boot_done") is False
    first = [Change("wait until cloud-init has finished this boot", _await_cloud_init)] * begun
    left = unfinished(node.state or {})
    if left.interrupted:
        first.append(Change(f"finish what dpkg left: {left.text()}", apt.finish))
    return first + converge(node, desired(node, ()))


def _await_cloud_init(node: Node) -> str:
    """It may still install packages, and write files that a run writes, too."""
    limit = node.spec.stage_timeout_s // 2
    # 124 is timeout's own; 1 and 2 say that something of cloud-init's went wrong, which stays so.
    script = f"timeout {limit} cloud-init status --wait --long; test $? -ne 124"
    said = node.connected().attempt(script)
    if not said.ok:
        raise RemoteError(
            f"cloud-init is at work on this boot for more than {limit} s: see "
            "/var/log/cloud-init-output.log on the node, or end it, then run again"
        )
    status = _STATUS.search(said.stdout)
    return f"cloud-init: {status[1] if status else 'ended'}"


STAGE = Stage(name="host", desired=desired, plan=plan)
