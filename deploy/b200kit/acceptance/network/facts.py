"""Whether ports between nodes are as the site declares them, before any traffic. Pure.

What a node read (b200kit/node/acceptance/network_facts.py) against its `rails`: a port that the
site says nothing of is not judged for it. Counters are judged as what they grew by meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from b200kit.inventory.keys.rails import Rail
from b200kit.node.checks.findings import failed, passed, rule, within
from b200kit.node.state.expectation import Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import Unread, View

_LEFT = "effective errors are those that FEC left; raw ones are what it is for"
WORST_BER = 1e-12
"""Effective BER at which a link is replaced (ibdiagnet's default)."""

Faults = Iterator[Finding]


@dataclass(frozen=True)
class _Row:
    """A reading that is to be what is declared, where that is not None: which, whose fault else."""

    check: str
    keys: tuple[str, ...]
    wanted: Callable[[Rail, View], Any]
    source: str = "rails of the inventory"
    action: Action = Action.MONITOR


_CARRIES = "b200kit rule: a port that carries traffic"
_OWN = "the device's own limit"
_ROWS = (
    _Row("link", ("state",), lambda rail, at: "ACTIVE", _CARRIES, Action.REPLACE),
    _Row("link", ("physical_state",), lambda rail, at: "LinkUp", _CARRIES, Action.REPLACE),
    _Row("rate", ("rate_gbit",), lambda rail, at: float(rail.gbit), action=Action.REPLACE),
    _Row("mtu", ("mtu",), lambda rail, at: rail.mtu),
    _Row("neighbour", ("neighbour", "switch"), lambda rail, at: rail.leaf),
    _Row("trust", ("trust",), lambda rail, at: "dscp" if rail.lossless else None),
    _Row("pfc", ("pfc",), lambda rail, at: [rail.priority] if rail.lossless else None),
    _Row("pcie", ("pcie_current_speed",), lambda rail, at: at.text("pcie_max_speed"), _OWN,
         Action.REBOOT),
    _Row("pcie", ("pcie_current_width",), lambda rail, at: at.text("pcie_max_width"), _OWN,
         Action.REBOOT),
)  # fmt: skip


def findings(node: str, rails: Sequence[Rail], facts: object) -> Faults:
    """Everything that a node's ports are judged for; one finding a rail where all is well."""
    ports = by_rail(facts)
    for rail in rails:
        subject = f"{node} rail {rail.rail}"
        view = View(ports.get(rail.rail), subject)
        found = [
            replace(one, check=f"network.{check}", part=rail.hca)
            for check, judged in _judged(rail, view, subject)
            for one in within(judged, subject=subject)
        ]
        well = passed(f"{rail.hca} is as declared", subject=subject).with_check("network.port")
        yield from found or [well]


def by_rail(facts: object) -> dict[object, dict[str, Any]]:
    """The ports that a node read, by the rail that was asked for."""
    entries = View(facts).known(list, "ports") or []
    return {entry.get("rail"): entry for entry in entries if isinstance(entry, dict)}


def _judged(rail: Rail, view: View, subject: str) -> Iterator[tuple[str, Faults]]:
    """Each check of a port; of one that is not there no other one."""
    if not view.known(bool, "there"):
        yield "port", _there(rail, view, subject)
        return
    for row in _ROWS:
        yield row.check, _row(row, rail, view, subject)
    yield "neighbour", _switch_port(rail, view.at("neighbour"), subject)
    yield "gid", _gid(view, subject)
    yield "ber", _physical(view.at("physical"), subject)


def _there(rail: Rail, view: View, subject: str) -> Faults:
    if not view.flag("there"):
        expected = Expected(rail.hca, "", "rails of the inventory")
        summary = f"{rail.hca} has no port {rail.hca_port}, or is not there"
        yield failed(summary, "absent", expected, Action.REBOOT, subject=subject)


def _row(row: _Row, rail: Rail, view: View, subject: str) -> Faults:
    wanted = row.wanted(rail, view)
    if wanted is not None and (read := view.raw(*row.keys)) != wanted:
        what = " ".join(row.keys).replace("_", " ")
        expected = Expected(wanted, "", row.source)
        yield failed(f"{what} is {read}", read, expected, row.action, subject=subject)


def _switch_port(rail: Rail, heard: View, subject: str) -> Faults:
    if rail.port is None:
        return
    read = (heard.raw("port"), heard.reading("description"))
    if rail.port not in read:
        expected = Expected(rail.port, "", "rails of the inventory")
        summary = f"it is cabled to port {read[0]} of {heard.text('switch')}, not {rail.port}"
        yield failed(summary, read[0], expected, Action.MONITOR, subject=subject)


def _gid(view: View, subject: str) -> Faults:
    if view.is_null("gid"):
        expected = rule("one of type RoCE v2", "traffic needs an address")
        summary = "no GID of type RoCE v2 is the interface's: it has no address"
        yield failed(summary, "none", expected, Action.MONITOR, subject=subject)
    else:
        view.number("gid", "index")


def _physical(link: View, subject: str) -> Faults:
    errors, ber = link.number("effective_errors"), link.get(float, "effective_ber")
    if errors and ber > WORST_BER:
        serial = link.reading("module", "serial")
        expected = rule(f"at most {WORST_BER:g}", _LEFT)
        summary = f"effective BER {ber:g}, {errors} errors; module {serial}"
        yield failed(summary, f"{ber:g}", expected, Action.REPLACE, subject=subject)


# Of one port's counters; what is absent has no meaning on this kind of link.
_ERRORS = (
    *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "VL15_dropped"),
    *("local_link_integrity_errors", "excessive_buffer_overrun_errors", "out_of_sequence"),
    *("packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "rx_icrc_encapsulated"),
)


def growth(node: str, rails: Sequence[Rail], before: object, after: object) -> Faults:
    """Errors that a port's counters, and its module, gained between two readings.

    What went backwards was cleared meanwhile, and is unknown.
    """
    one, other = by_rail(before), by_rail(after)
    for rail in rails:
        subject = f"{node} rail {rail.rail}"
        then, now = (View(each.get(rail.rail), subject) for each in (one, other))
        for found in within(_grown(then, now, subject), subject=subject):
            yield replace(found, check="network.errors", part=rail.hca)


def _grown(before: View, after: View, subject: str) -> Faults:
    there = after.names("counters")
    counters = [("counters", name) for name in _ERRORS if name in there]
    if isinstance(after.reading("physical"), dict):
        counters.append(("physical", "effective_errors"))
    grown = {keys: after.number(*keys) - before.number(*keys) for keys in counters}
    for keys, count in grown.items():
        if count < 0:
            raise Unread(".".join(keys), "it went backwards: somebody cleared it meanwhile")
        if count:
            summary = f"{keys[1]} grew by {count} under traffic"
            yield failed(summary, count, rule("0", _LEFT), Action.MONITOR, subject=subject)
    if not any(grown.values()):
        yield passed(f"none of {len(grown)} error counters grew", subject=subject)


def twins(facts: Mapping[str, object]) -> Faults:
    """GUIDs that two adapters of a fleet (node to its facts) have: they would be taken for one."""
    adapters: dict[str, set[str]] = defaultdict(set)
    for node, read in facts.items():
        for entry in by_rail(read).values():
            if isinstance(guid := entry.get("guid"), str):
                adapters[guid].add(f"{node} {entry.get('hca')}")
    for guid, those in adapters.items():
        if len(those) > 1:
            expected = rule("unique", "the fabric knows ports by their GUID")
            summary = f"{', '.join(sorted(those))} have the same GUID {guid}"
            yield failed(summary, guid, expected, Action.REPLACE).with_check("network.guid")
