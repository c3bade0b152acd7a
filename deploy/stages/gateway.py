"""Gateway: HAProxy as the one endpoint, least connections, chunks passed on without delay.

`option http-no-delay` is not a detail: without it HAProxy merges the chunks of a stream, and a
20 ms TTFT was measured as 194 ms. It comes after the warm-up, in the pipeline and at boot: /health
of a replica answers before it is warm, so a gateway that ran already would send clients too early.
"""

from __future__ import annotations

from collections.abc import Sequence

from deploy.core.drift import File, Package, Unit
from deploy.core.layout import Replica
from deploy.render import render
from deploy.run import Node
from deploy.stages.base import Change, Stage, Wanted, converge

UNIT = "haproxy.service"


def wanted(node: Node, layout: Sequence[Replica]) -> Wanted:
    """HAProxy with our configuration, running."""
    config = render("haproxy/haproxy.cfg.j2", spec=node.spec, layout=layout)
    return Wanted(
        # The package must be there before its configuration: its own would be kept otherwise.
        packages=(Package("haproxy"),),
        files=(
            File("/etc/haproxy/haproxy.cfg", config, then=(f"reload:{UNIT}",)),
            File(
                f"/etc/systemd/system/{UNIT}.d/b200kit.conf",
                render("systemd/gateway.conf.j2"),
                then=("daemon-reload",),
            ),
        ),
        units=(Unit(UNIT),),
    )


def plan(node: Node) -> list[Change]:
    """Bring the gateway to its configuration."""
    return converge(node, wanted(node, node.layout()))


STAGE = Stage(name="gateway", wanted=wanted, plan=plan)
