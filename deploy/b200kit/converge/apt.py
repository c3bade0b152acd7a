"""One apt transaction on the node: what is asked for, what apt has of it, installed and held."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from b200kit.converge import dpkg_recovery
from b200kit.inventory.keys.source import Mirror
from b200kit.inventory.source import MIRROR
from b200kit.node.lib import documents
from b200kit.node.packages import candidates
from b200kit.node.state.drift import File, Package
from b200kit.run.node import Node
from b200kit.run.remote import program_step

# What was requested of apt and it does not have; b200kit/node/packages/resolve.py writes it.
PACKAGES = "/var/lib/b200kit/packages.json"
# Errors of any index fail the update: a stale list would quietly install what it still knows.
# needrestart must not restart a fabric manager, or what serves, as a side effect of ours.
_APT = (
    "DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -o DPkg::Lock::Timeout=300 "
    "-o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Dpkg::Options::=--force-confold"
)


# Read by apt before its own configuration. Lists of the node's own sources stay where they are.
_MIRROR_CONF = "/etc/b200kit/apt-mirror.conf"
_SOURCES = "/etc/apt/sources.list.d"


def source_file(repository: str) -> str:
    """The list on the node that names one repository of the inventory."""
    return f"{_SOURCES}/b200kit-{repository}.sources"


def only_source(node: Node) -> str | None:
    """The one list that apt may read for us; None where it reads those of the node, too.

    With a mirror the node's own may point where there is no way to.
    """
    return source_file(MIRROR) if isinstance(node.spec.source, Mirror) else None


def files(node: Node) -> list[File]:
    """apt's configuration for what we run; nothing else on the node reads it."""
    only = only_source(node)
    content = f'Dir::Etc::sourcelist "{only}";\nDir::Etc::sourceparts "/dev/null";\n'
    content += 'APT::Get::List-Cleanup "false";\n'
    return [File(_MIRROR_CONF, content.encode())] if only else []


def environment(node: Node) -> str:
    """The first step of every script that runs apt."""
    return f"export APT_CONFIG={_MIRROR_CONF}" if only_source(node) else "true"


def install(
    node: Node, packages: Sequence[Package], absent: Sequence[str] = (), fetch_only: bool = False
) -> list[str]:
    """Finish what an interrupted dpkg left, apt update, install the exact versions, hold.

    Returns the keys of the optional packages that apt has none of; they are left out. With
    *fetch_only* everything but the installation itself is done.
    """
    dpkg_recovery.require_disk_space(node, [package.name for package in packages])
    requested = " ".join(shlex.quote(candidates.token(package)) for package in packages)
    leaving = " ".join(shlex.quote(f"{name}-") for name in absent)
    held = " ".join(shlex.quote(package.name) for package in packages if package.hold)
    steps = [
        environment(node),
        dpkg_recovery.before_update(node),
        f"{_APT} update --error-on=any",
        # With spaces: $(( would be arithmetic.
        f"words=$( {program_step(f'resolve {requested}')} )",
        dpkg_recovery.before_install(node, "$words"),
        f"{_APT} install -y --no-install-recommends --allow-downgrades "
        f"--allow-change-held-packages {'--download-only ' if fetch_only else ''}$words {leaving}",
    ]
    if held and not fetch_only:
        # What was left out cannot be held.
        there = f"dpkg-query -W -f '${{Package}}\\n' {held} 2>/dev/null"
        steps.append(f"{there} | xargs -r apt-mark hold")
    steps.append(f"cat {PACKAGES}")
    output = node.connected().run_logged(" && ".join(steps), dpkg_recovery.LOG, dpkg_recovery.why())
    return _unavailable(output, packages)


def _unavailable(record: str, packages: Sequence[Package]) -> list[str]:
    """Keys of those optional packages that apt on the node does not have, by its record."""
    try:
        entries = documents.parse(record).get("missing", {})
    except (ValueError, AttributeError):
        return []
    return [package.key for package in packages if package.optional and package.key in entries]
