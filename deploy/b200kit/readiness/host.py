"""Room, ports, services of the site that may interfere, certificates. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit.converge import disk_space
from b200kit.node.checks.findings import passed, within
from b200kit.node.lib.certificates import SOON
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import StateView, View
from b200kit.readiness.findings import note, refused

FIREWALLS = ("ufw.service", "firewalld.service")
UPGRADES = "unattended-upgrades.service"
SERVICES = (*FIREWALLS, UPGRADES)
"""Units to read for this."""


def room(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """There is room for a new initramfs, the engine and the model."""
    document = state.value if isinstance(state.value, Mapping) else {}
    if short := disk_space.shortage(_installing(expect, state), document):
        summary, _, remedy = short.partition("; ")
        yield refused(summary, summary, "room on /boot", remedy)
    for entry in expect.items("ready", "room"):
        yield from within(_room(entry, state))
    if not short:
        yield passed("there is room for what is needed")


def _room(entry: View, state: StateView) -> Iterator[Finding]:
    path, need, what = entry.text(0), entry.number(1), entry.text(2)
    free = state.number("disks", path, "free_bytes")
    if free < need:
        summary = f"{free / 1e9:.1f} GB are free for {path}, and {what} needs {need / 1e9:.0f} GB"
        remedy = f"make room, or mount a larger file system at {path}"
        yield refused(summary, f"{free} bytes", f"{need} bytes", remedy)


def _installing(expect: Expectation, state: StateView) -> list[str]:
    """The driver, where another one than the desired one is there: it makes an initramfs."""
    same = state.known(str, "modules", "nvidia") == expect.text("ready", "driver")
    return [] if same else ["nvidia-open"]


def ports(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Nothing of another's listens where gateway and replicas will."""
    wanted, listening = expect.get(dict, "ready", "ports"), state.get(list, "listening")
    taken = {str(address).rpartition(":")[2]: str(address) for address in listening}
    busy = {port: taken[port] for port in wanted if port in taken}
    for port, address in busy.items():
        remedy = f"stop it (ss -ltnp 'sport = :{port}' names it), or choose another port"
        summary = f"something listens on {address}, the port of {wanted[port]}"
        yield refused(summary, address, "a free port", remedy)
    if not busy:
        yield passed("the ports are free, or in use by what b200kit installed")


def services(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A firewall, automatic upgrades, and a first boot that is not finished are noted."""
    found = []
    for unit in FIREWALLS:
        if state.known(str, "units", unit, "active") == "active":
            beside = (
                "beside the inventory's: both must"
                if expect.flag("ready", "firewall")
                else "it must"
            )
            found.append(note(f"{unit} is active; {beside} let clients reach the gateway", unit))
    if state.known(str, "units", UPGRADES, "active") == "active":
        summary = f"{UPGRADES} is active: the host stage switches automatic upgrades off"
        found.append(note(summary, UPGRADES))
    if state.known(bool, "readiness", "first_boot_done") is False:
        summary = "cloud-init is at work on this boot: the host stage waits for it"
        found.append(note(summary, "cloud-init"))
    yield from found or [passed("no firewall and no automatic upgrades are active")]


def certificates(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A certificate of the inventory's that ends soon is noted; one that has is refused earlier."""
    del state
    ending = [str(line) for line in expect.get(list, "ready", "certificates")]
    yield from (note(line, line) for line in ending)
    if not ending:
        yield passed(f"no certificate of the inventory's ends within {SOON.days} days")
