"""Changes that finish what an earlier installation left, where no installation would do it anyway.

An interrupted dpkg is finished by the host stage, so that all later stages see what is truly
there. A package of ours that is half-configured (a module that did not build) is configured by the
driver stage, unless that stage installs something: apt then does it.
"""

from __future__ import annotations

from collections.abc import Sequence

from b200kit.converge import dpkg_recovery
from b200kit.converge.stage import Change
from b200kit.node.facts.dpkg_state import unfinished
from b200kit.run.node import Node


def interrupted(node: Node) -> list[Change]:
    """For the host stage: one change where dpkg was interrupted, else none."""
    found = unfinished(node.state or {})
    if not found.interrupted:
        return []
    return [Change(f"finish what dpkg left: {found.text()}", dpkg_recovery.finish_interrupted)]


def half_configured(node: Node, installing: Sequence[object]) -> list[Change]:
    """For the driver stage: one change where packages of ours are not fully installed, else none.

    Nothing where the stage is *installing* anyway.
    """
    broken = dpkg_recovery.left(node)
    if installing or not broken:
        return []
    return [Change(f"configure {', '.join(broken)}", dpkg_recovery.configure)]
