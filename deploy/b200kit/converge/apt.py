"""apt and dpkg on a node: what is installed, and what an earlier run left unfinished.

Each is one command of the node program (b200kit/node/packages/transaction.py). An interrupted dpkg
is finished by the host stage, so that all later stages see what is truly there. A package of ours
that is half-configured (a module that did not build) is configured by the driver stage, unless that
stage installs something: apt then does it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from b200kit.converge import disk_space
from b200kit.inventory.keys.source import Mirror
from b200kit.inventory.source import MIRROR
from b200kit.node.facts.dpkg_state import VENDOR, unfinished
from b200kit.node.lib import documents
from b200kit.node.packages.transaction import LOG, PackageTransaction
from b200kit.node.state.drift import Package
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import program_step

_LOCK_WAIT_S = 300
_SOURCES = "/etc/apt/sources.list.d"


def source_file(repository: str) -> str:
    """The list on the node that names one repository of the inventory."""
    return f"{_SOURCES}/b200kit-{repository}.sources"


def only_source(node: Node) -> str | None:
    """The one list that apt may read for us; None where it reads those of the node, too.

    With a mirror the node's own may point where there is no way to.
    """
    return source_file(MIRROR) if isinstance(node.spec.source, Mirror) else None


def install(
    node: Node, packages: Sequence[Package], absent: Sequence[str] = (), fetch_only: bool = False
) -> list[str]:
    """Install the exact versions as one transaction, with what is *absent* removed, and hold.

    Returns the keys of the optional packages that apt has none of; they are left out. With
    *fetch_only* everything but the installation itself is done.
    """
    short = disk_space.shortage([package.name for package in packages], node.state or {})
    if short:
        raise StageFailed(f"{short}. Nothing was installed")
    answer = _run(node, "install", packages, absent, fetch_only)
    return documents.structure(list[str], answer["missing"])


def offered(node: Node, *names: str) -> tuple[dict[str, list[str]], list[str]]:
    """What apt has of packages after an update, newest first, and which are on the node."""
    answer = _run(node, "offer", [Package(name) for name in names])
    versions = documents.structure(dict[str, list[str]], answer["versions"])
    return versions, documents.structure(list[str], answer["installed"])


def left(node: Node) -> list[str]:
    """Packages of ours that are not fully installed."""
    broken = unfinished(node.state or {}).broken
    return [name for name in broken if name in _requested(node) or VENDOR.search(name)]


def finish(node: Node) -> str:
    """Finish an interrupted dpkg. What is ours and still fails is left to the driver stage."""
    _run(node, "finish")
    return "finished what an interrupted dpkg had left"


def configure(node: Node) -> str:
    """Configure what is left; raises with the cause, such as a module that does not build."""
    _run(node, "configure")
    return "configured what was left"


def _run(
    node: Node,
    act: str,
    packages: Sequence[Package] = (),
    absent: Sequence[str] = (),
    fetch_only: bool = False,
) -> dict[str, Any]:
    # Half of what one command may take at most: the other half is for the work itself.
    wait = min(_LOCK_WAIT_S, node.spec.stage_timeout_s // 2)
    ours = tuple(_requested(node))
    asked = PackageTransaction(
        tuple(packages), tuple(absent), ours, only_source(node), wait, fetch_only
    )
    request = shlex.quote(json.dumps(documents.unstructure(asked)))
    said = node.connected().run_logged(program_step(f"packages {act} {request}"), str(LOG))
    return documents.decode(documents.Object, said, documents.LARGE, "packages")


def _requested(node: Node) -> list[str]:
    packages = (node.state or {}).get("packages")
    return sorted(packages) if isinstance(packages, Mapping) else []
