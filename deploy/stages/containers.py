"""Containers: NVIDIA's container toolkit at one version, and CDI as the way to the GPUs.

CDI rather than the legacy hook, because a `systemctl daemon-reload` takes the GPUs away from
containers started through the hook (nvidia-container-toolkit#48); this tool reloads systemd itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from deploy.core import drift
from deploy.core.drift import Package
from deploy.core.layout import Replica
from deploy.run import Node
from deploy.stages.base import Change, Stage, Wanted, converge

CDI_SPEC = "/var/run/cdi/nvidia.yaml"
_PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)


def wanted(node: Node, layout: Sequence[Replica]) -> Wanted:
    """The four packages of the toolkit, all of one version, held."""
    del layout
    version = node.spec.container_toolkit
    return Wanted(
        packages=tuple(Package(name, version, hold=True) for name in _PACKAGES),
        ask_files=(CDI_SPEC,),
    )


def plan(node: Node) -> list[Change]:
    """Install, then generate the CDI specification when the node has none."""
    changes = converge(node, wanted(node, ()))
    if changes or not drift.is_present(CDI_SPEC, node.state or {}):
        changes.append(Change("generate the CDI specification", _generate))
    return changes


def _generate(node: Node) -> None:
    node.connected().run(f"systemctl restart nvidia-cdi-refresh.service && test -s {CDI_SPEC}")


STAGE = Stage(name="containers", wanted=wanted, plan=plan)
