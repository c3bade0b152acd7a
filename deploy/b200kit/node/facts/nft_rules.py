"""The node's firewall: from openings to rules, and from the kernel's own listing back. Pure.

Rules live in one table of ours, `inet b200kit`, that denies what comes in by default; no other
table is read or written. A rule is one line in nft's own words. There is one for each source and
port, without sets, so that every version of nft lists it as it was given; a line of the kernel's
that differs is therefore a rule that somebody changed.

    ["chain input hook input prio 0 policy drop",
     "ct state established,related accept comment \"answers\"", ...,
     "ip saddr 10.0.0.0/24 tcp dport 8000 accept"]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TABLE = "b200kit"
ANY = "any"
CHAIN = "chain input hook input prio 0 policy drop"
SSH = 'comment "ssh"'
Entry = dict[str, Any]

# Accepted always. ICMP and ICMPv6 carry path MTU and neighbour discovery; DHCP answers may come
# from another address than was asked, so conntrack does not know them. Protocols are numbers:
# without /etc/protocols nft does not know their names.
BASE = (
    'ct state established,related accept comment "answers"',
    'iif "lo" accept comment "loopback"',
    'meta l4proto 1 accept comment "ICMP"',
    'meta l4proto 58 accept comment "ICMPv6"',
    'udp sport 67 udp dport 68 accept comment "DHCP"',
    'ip6 saddr fe80::/10 udp dport 546 accept comment "DHCPv6"',
)
LAST = 'counter comment "refused"'
# nft lists a protocol by name where /etc/protocols has it.
_PROTOCOLS = {"icmp": 1, "ipv6-icmp": 58, "icmpv6": 58}


def lines(allowed: Iterable[Mapping[str, Any]], ssh_ports: Iterable[int]) -> list[str]:
    """The whole table, a line each, in the order of the kernel's listing."""
    ssh = [f"tcp dport {port} accept {SSH}" for port in sorted({*ssh_ports})]
    own = list(dict.fromkeys(_line(entry) for entry in allowed))
    return [CHAIN, *BASE, *ssh, *own, LAST]


def _line(entry: Mapping[str, Any]) -> str:
    to = f"{entry['protocol']} dport {entry['port']} accept"
    if entry["source"] == ANY:
        return to
    family = "ip6" if ":" in str(entry["source"]) else "ip"
    return f"{family} saddr {entry['source']} {to}"


def listed(document: Mapping[str, Any]) -> list[str]:
    """The lines of `nft -j list table`; what is not ours to write is given as JSON, whole."""
    found = []
    for item in document["nftables"]:
        [(kind, value)] = item.items()
        if kind == "chain":
            found.append(_chain(value))
        elif kind == "rule":
            found.append(_rule(value))
        elif kind not in ("metainfo", "table"):
            found.append(f"{kind} {_json(value)}")
    return found


def _chain(chain: Mapping[str, Any]) -> str:
    words = [f"chain {chain['name']}"]
    words += [f"{key} {chain[key]}" for key in ("hook", "prio", "policy") if key in chain]
    return " ".join(words)


def _rule(rule: Mapping[str, Any]) -> str:
    words = [] if rule["chain"] == "input" else [f"in {rule['chain']}:"]
    words += [_expression(expression) for expression in rule["expr"]]
    if "comment" in rule:
        words.append(f'comment "{rule["comment"]}"')
    return " ".join(words)


def _expression(expression: Mapping[str, Any]) -> str:
    [(kind, value)] = expression.items()
    if kind == "match" and value["op"] in ("==", "in"):
        return f"{_left(value['left'])} {_right(value['left'], value['right'])}"
    if kind == "counter" or value is None:
        return str(kind)
    return _json(expression)


def _left(left: Mapping[str, Any]) -> str:
    [(kind, value)] = left.items()
    if kind == "payload" and "field" in value:
        return f"{value['protocol']} {value['field']}"
    if kind == "ct":
        return f"ct {value['key']}"
    if kind == "meta":
        return "iif" if value["key"] == "iif" else f"meta {value['key']}"
    return _json(left)


def _right(left: Mapping[str, Any], right: Any) -> str:
    key = left.get("meta", {}).get("key")
    if key == "iif":
        return f'"{right}"'
    if key == "l4proto":
        return str(_PROTOCOLS.get(right, right))
    if isinstance(right, list):
        return ",".join(sorted(map(str, right)))
    if isinstance(right, Mapping) and "range" in right:
        first, last = right["range"]
        return f"{first}-{last}"
    if isinstance(right, Mapping) and "prefix" in right:
        return f"{right['prefix']['addr']}/{right['prefix']['len']}"
    return str(right) if isinstance(right, str | int) else _json(right)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def ports_of_ssh(rules: Sequence[str]) -> list[int]:
    """The ports that the table opens for SSH."""
    return [int(line.split()[2]) for line in rules if line.endswith(f"accept {SSH}")]
