"""Peers: what keeps the members of a group together, on nodes that are in one.

vLLM's followers do not notice when their head is gone (seen with 0.32.0: up a minute later, and for
as long as anybody looked), and a head notices a lost follower only at the next request. So each
member watches its connections to the others, and restarts its own replica when one is gone.
"""

from __future__ import annotations

from b200kit.inventory import group
from b200kit.node.state.drift import File
from b200kit.node.state.serving import PeerGroup
from b200kit.run.node import Node
from b200kit.run.remote import INSTALLED
from b200kit.run.render import render

UNIT = "b200-peers.service"
_PATH = f"/etc/systemd/system/{UNIT}"


def members(node: Node) -> PeerGroup | None:
    """What serving.json says of the group; None without one."""
    member = group.part(node.spec.group, node.name)
    if member is None:
        return None
    peers = member.peers if member.node_rank == 0 else [member.master_addr]
    return PeerGroup("vllm@0.service", "vllm", tuple(peers), member.headless)


def files(node: Node, serving: str) -> list[File]:
    """The watching unit. It starts and stops with the replica, so nothing enables it."""
    if node.spec.group is None:
        return []
    unit = render(f"systemd/{UNIT}.j2", program=INSTALLED, serving=serving)
    return [File(_PATH, unit, notify=("daemon-reload",))]
