"""Real container engines for the nodes: docker and containerd of Debian 13, podman of Debian 12.

Debian 12's own docker (20.10) and containerd (1.6) know no CDI; those of Debian 13 need nothing
more than Debian 12 has. They start in a node, but no container does: the kernel refuses runc there.
"""

from __future__ import annotations

from tests.lab.lab import say
from tests.lab.locks import shared_lock
from tests.lab.own_network import outside
from tests.lab.paths import lab_paths, mirror_url
from tests.lab.state import lab_lock, read_state
from tests.lab.supply.debian_mirror import pool_of
from tests.lab.supply.repositories import publish_debian

NAME = "engines"
_NEWER = ("containerd", "docker-cli", "docker.io")
_PACKAGES = (*_NEWER, "podman")

#: What a daemon.json of a node must say, as there is no netfilter and /proc/sys is read-only.
DAEMON_JSON = {"bridge": "none", "iptables": False, "ip6tables": False, "ip-forward": False}


def publish() -> dict[str, str]:
    """Publish the engines as a repository of their own (75 MB once) and return its inventory."""
    lab = lab_paths()
    wanted = pool_of(lab, NAME, _PACKAGES, _NEWER)
    with lab_lock(lab), shared_lock(lab.root), outside():
        publish_debian(lab, wanted, say)
    return entry()


def entry() -> dict[str, str]:
    """Return the inventory of that repository."""
    mirror = read_state(lab_paths())["mirror"]
    return {
        "name": NAME,
        "url": f"{mirror_url()}/apt/{NAME}/",
        "key": mirror["apt_key"],
        "fingerprint": mirror["apt_fingerprint"],
    }
