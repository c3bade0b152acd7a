"""Whether ports between nodes are as the site declares them, before any traffic. Pure.

What a node read (b200kit/node/acceptance/network_facts.py) against its `rails`: a port that the
site says nothing of is not judged for it. Counters are judged as what they grew by meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from b200kit.inventory.keys.rails import Rail
from b200kit.node.checks.findings import failed, passed, unread
from b200kit.node.state.expectation import Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import Unread, View

DECLARED = "rails of the inventory"
BER_SOURCE = "b200kit rule: effective errors are those that FEC left; raw ones are what it is for"
WORST_BER = 1e-12
"""Effective BER at which a link is replaced (ibdiagnet's default)."""

Faults = Iterator[Finding]


@dataclass(frozen=True)
class _Row:
    """A reading that is to be what is declared: which, what for, whose fault it is if it is not."""

    check: str
    keys: tuple[str, ...]
    wanted: Callable[[Rail], Any]
    why: str
    action: Action = Action.MONITOR


_ROWS = (
    _Row("link", ("state",), lambda rail: "ACTIVE", "a port that carries traffic", Action.REPLACE),
    _Row("link", ("physical_state",), lambda rail: "LinkUp", "the same", Action.REPLACE),
    _Row("rate", ("rate_gbit",), lambda rail: float(rail.gbit), DECLARED, Action.REPLACE),
    _Row("mtu", ("mtu",), lambda rail: rail.mtu, DECLARED),
    _Row("neighbour", ("neighbour", "switch"), lambda rail: rail.leaf, DECLARED),
    _Row("trust", ("trust",), lambda rail: "dscp" if rail.lossless else None, DECLARED),
    _Row("pfc", ("pfc",), lambda rail: [rail.priority] if rail.lossless else None, DECLARED),
)


def findings(node: str, rails: Sequence[Rail], facts: object) -> Faults:
    """Everything that a node's ports are judged for; one finding a rail where all is well."""
    by_rail = _by_rail(facts)
    for rail in rails:
        subject = f"{node} rail {rail.rail}"
        view = View(by_rail.get(rail.rail), subject)
        found = [replace(one, part=rail.hca) for one in _port(rail, view, subject)]
        well = passed(f"{rail.hca} is as declared", subject=subject).with_check("network.port")
        yield from found or [well]


def _by_rail(facts: object) -> dict[object, dict[str, Any]]:
    entries = View(facts).known(list, "ports") or []
    return {entry.get("rail"): entry for entry in entries if isinstance(entry, dict)}


def _port(rail: Rail, view: View, subject: str) -> Faults:
    there = view.known(bool, "there")
    for check, judge in _JUDGES if there else (("port", _there),):
        try:
            yield from (one.with_check(f"network.{check}") for one in judge(rail, view, subject))
        except Unread as error:
            yield unread(error, subject).with_check(f"network.{check}")


def _there(rail: Rail, view: View, subject: str) -> Faults:
    if not view.get(bool, "there"):
        expected = Expected(rail.hca, "", DECLARED)
        summary = f"{rail.hca} has no port {rail.hca_port}, or is not there"
        yield failed(summary, "absent", expected, Action.REBOOT, subject=subject)


def _row(row: _Row) -> Callable[[Rail, View, str], Faults]:
    def judge(rail: Rail, view: View, subject: str) -> Faults:
        wanted = row.wanted(rail)
        if wanted is None:
            return
        read = view.raw(*row.keys)
        if read != wanted:
            what = " ".join(row.keys).replace("_", " ")
            expected = Expected(wanted, "", row.why)
            yield failed(f"{what} is {read}", read, expected, row.action, subject=subject)

    return judge


def _switch_port(rail: Rail, view: View, subject: str) -> Faults:
    if rail.port is None:
        return
    heard = view.at("neighbour")
    read = (heard.raw("port"), heard.reading("description"))
    if rail.port not in read:
        expected = Expected(rail.port, "", DECLARED)
        summary = f"it is cabled to port {read[0]} of {heard.text('switch')}, not {rail.port}"
        yield failed(summary, read[0], expected, Action.MONITOR, subject=subject)


def _gid(rail: Rail, view: View, subject: str) -> Faults:
    del rail
    if view.is_null("gid"):
        expected = Expected("one of type RoCE v2", "", "b200kit rule: traffic needs an address")
        summary = "no GID of type RoCE v2 is the interface's: it has no address"
        yield failed(summary, "none", expected, Action.MONITOR, subject=subject)
    view.at("gid").number("index")


def _pcie(rail: Rail, view: View, subject: str) -> Faults:
    del rail
    for which in ("speed", "width"):
        now, most = (view.text(f"pcie_{when}_{which}") for when in ("current", "max"))
        if now != most:
            expected = Expected(most, "", "the device's own limit")
            summary = f"its PCIe {which} is {now}, of {most}"
            yield failed(summary, now, expected, Action.REBOOT, subject=subject)


def _physical(rail: Rail, view: View, subject: str) -> Faults:
    del rail
    link = view.at("physical")
    errors, ber = link.number("effective_errors"), link.get(float, "effective_ber")
    if errors and ber > WORST_BER:
        module = link.at("module")
        serial = module.reading("serial")
        expected = Expected(f"at most {WORST_BER:g}", "", BER_SOURCE)
        summary = f"effective BER {ber:g}, {errors} errors; module {serial}"
        yield failed(summary, f"{ber:g}", expected, Action.REPLACE, subject=subject)


_JUDGES = (
    *((row.check, _row(row)) for row in _ROWS),
    ("neighbour", _switch_port),
    ("gid", _gid),
    ("pcie", _pcie),
    ("ber", _physical),
)
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
    one, other = _by_rail(before), _by_rail(after)
    for rail in rails:
        subject = f"{node} rail {rail.rail}"
        try:
            grew = dict(_grew(*(View(each.get(rail.rail), subject) for each in (one, other))))
        except Unread as error:
            yield unread(error, subject).with_check("network.errors")
            continue
        for name, count in grew.items():
            if count:
                expected = Expected("0", "", BER_SOURCE)
                summary = f"{name} grew by {count} under traffic"
                yield failed(
                    summary, count, expected, Action.MONITOR, subject=subject, part=rail.hca
                ).with_check("network.errors")
        if not any(grew.values()):
            yield passed(f"none of {len(grew)} error counters grew", subject=subject).with_check(
                "network.errors"
            )


def _grew(before: View, after: View) -> Iterator[tuple[str, int]]:
    counters: Mapping[str, int] = after.get(dict, "counters")
    names = [("counters", name) for name in _ERRORS if name in counters]
    if isinstance(after.reading("physical"), dict):
        names.append(("physical", "effective_errors"))
    for keys in names:
        grown = after.number(*keys) - before.number(*keys)
        if grown < 0:
            raise Unread(".".join(keys), "it went backwards: somebody cleared it meanwhile")
        yield keys[1], grown


def twins(facts: Mapping[str, object]) -> Faults:
    """GUIDs that two adapters of a fleet (node to its facts) have: they would be taken for one."""
    guids = [
        (str(entry.get("guid")), f"{node} {entry.get('hca')}")
        for node, read in facts.items()
        for entry in _by_rail(read).values()
        if isinstance(entry.get("guid"), str)
    ]
    for guid, count in Counter(guid for guid, _ in dict.fromkeys(guids)).items():
        if count > 1:
            those = ", ".join(where for other, where in dict.fromkeys(guids) if other == guid)
            expected = Expected("unique", "", "b200kit rule: the fabric knows ports by their GUID")
            summary = f"{those} have the same GUID {guid}"
            yield failed(summary, guid, expected, Action.REPLACE).with_check("network.guid")
