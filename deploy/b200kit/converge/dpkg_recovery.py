"""What an earlier installation left unfinished: found in the observation, repaired before the next.

The work is done on the node (b200kit/node/packages/apt_ready.py): it waits for dpkg's locks,
configures what an interrupted dpkg left, and refuses by name what is broken and not ours.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from b200kit.converge import disk_space
from b200kit.node.facts.dpkg_state import VENDOR, unfinished
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import program_step

LOG = "/var/log/b200kit-apt.log"
_LOCK_WAIT_S = 300


def why() -> str:
    """The step that says in one line why apt failed."""
    return program_step(f"apt-failure {LOG}")


def before_update(node: Node) -> str:
    """The step that waits for dpkg's locks and finishes what an interrupted dpkg left."""
    # Half of what one command may take at most: the other half is for the work itself.
    wait = min(_LOCK_WAIT_S, node.spec.stage_timeout_s // 2)
    return program_step(f"apt-ready --wait {wait} --ours {_ours(node)}")


def before_install(node: Node, packages: str) -> str:
    """The step that repairs dependencies and checks disk space, for shell words of packages."""
    return program_step(f"apt-check --ours {_ours(node)} -- {packages}")


def require_disk_space(node: Node, names: Iterable[str]) -> None:
    """Refuse an installation for which the observation shows too little disk space."""
    short = disk_space.shortage(names, node.state or {})
    if short:
        raise StageFailed(f"{short}. Nothing was installed")


def left(node: Node) -> list[str]:
    """Packages of ours that are not fully installed."""
    requested = _requested(node)
    broken = unfinished(node.state or {}).broken
    return [name for name in broken if name in requested or VENDOR.search(name)]


def finish_interrupted(node: Node) -> str:
    """Finish an interrupted dpkg. What is ours and still fails is left to the driver stage."""
    node.connected().run_logged(before_update(node), LOG, why())
    return "finished what an interrupted dpkg had left"


def configure(node: Node) -> str:
    """Configure what is left; raises with the cause, such as a module that does not build."""
    steps = [before_update(node), "dpkg --force-confold --configure -a"]
    node.connected().run_logged(" && ".join(steps), LOG, why())
    return "configured what was left"


def _requested(node: Node) -> list[str]:
    packages = (node.state or {}).get("packages")
    return sorted(packages) if isinstance(packages, Mapping) else []


def _ours(node: Node) -> str:
    return shlex.quote(",".join(_requested(node)))
