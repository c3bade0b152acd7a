"""The lab's network: a bridge without a way out, and one namespace with one interface a host.

The machine does not forward for hosts: like a site without internet access, they reach each other
and the mirror on the bridge's address, and nothing else. They have a default route all the same, by
which programs take the address on the bridge for their own, as on a real node.
"""

from __future__ import annotations

from pathlib import Path

from tests.lab.own_network import NAMESPACES, exists, join
from tests.lab.paths import (
    BRIDGE,
    BRIDGE_ADDRESS,
    PREFIX_LENGTH,
    host_address,
    host_index,
    lab_id,
)
from tests.lab.shell import run

INTERFACE = "host0"


def namespace(name: str) -> str:
    """Return the name of a host's network namespace."""
    return f"lab{lab_id()}-{name}"


def namespace_path(name: str) -> Path:
    """Return the path of a host's network namespace."""
    return NAMESPACES / namespace(name)


def host_mac(name: str) -> str:
    """Return a host's hardware address: the same after each reset, as a machine's own would be.

    With a new one, this machine's ARP entry for the host would be wrong for up to a minute.
    """
    return f"02:b2:00:00:00:{host_index(name):02x}"


def bridge_up() -> bool:
    """Return whether the bridge is there."""
    return has_interface(BRIDGE)


def ensure_bridge() -> None:
    """Make the bridge with the controller's address, unless it is there; never forwarding.

    This process is in the lab's network afterwards.
    """
    join()
    if not bridge_up():
        options = ["type", "bridge", "forward_delay", "0", "stp_state", "0"]
        run(["ip", "link", "add", BRIDGE, *options])
    run(["ip", "addr", "replace", f"{BRIDGE_ADDRESS}/{PREFIX_LENGTH}", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])
    Path(f"/proc/sys/net/ipv4/conf/{BRIDGE}/forwarding").write_text("0")


def remove_bridge() -> None:
    """Remove the bridge if it is there. Without a network of this lab, one here is another's."""
    if exists() and bridge_up():
        run(["ip", "link", "del", BRIDGE])


def ensure_host_link(name: str) -> None:
    """Give a host its namespace, its interface and its address, unless it has them."""
    # `ip netns list` races with hosts that start beside this one: look at the file instead.
    if namespace_path(name).exists():
        return
    ns, outer = namespace(name), f"v-{name}"
    remove_host_link(name)
    run(["ip", "netns", "add", ns])
    run(["ip", "link", "add", outer, "type", "veth", "peer", "name", INTERFACE, "netns", ns])
    run(["ip", "link", "set", outer, "master", BRIDGE, "up"])
    commands = [
        "link set lo up",
        f"link set {INTERFACE} address {host_mac(name)}",
        f"addr add {host_address(name)}/{PREFIX_LENGTH} dev {INTERFACE}",
        f"link set {INTERFACE} up",
        f"route add default via {BRIDGE_ADDRESS}",
    ]
    run(["ip", "-n", ns, "-batch", "-"], stdin="\n".join(commands) + "\n")


def remove_host_link(name: str) -> None:
    """Remove a host's interface and namespace, whichever are there."""
    if has_interface(f"v-{name}"):
        run(["ip", "link", "del", f"v-{name}"], check=False)
    if namespace_path(name).exists():
        run(["ip", "netns", "del", namespace(name)])


def leftovers() -> list[str]:
    """Return the names of lab hosts that a namespace is left of."""
    prefix = namespace("")
    names = [path.name.removeprefix(prefix) for path in NAMESPACES.glob(f"{prefix}b200-*")]
    return sorted(names, key=host_index)


def set_link(name: str, up: bool) -> None:
    """Plug a host's cable in or pull it: its processes go on, nobody reaches it."""
    run(["ip", "link", "set", f"v-{name}", "up" if up else "down"])


def has_interface(name: str) -> bool:
    """Ask the kernel, not /sys: that shows the network in which it was mounted."""
    return run(["ip", "link", "show", "dev", name], check=False).returncode == 0
