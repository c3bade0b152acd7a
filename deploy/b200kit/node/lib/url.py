"""Whether a text is a URL that can be asked: its host and its port, where it has one. Pure."""

from __future__ import annotations

import ipaddress
import re

from b200kit.node.lib.readings import is_digits

# Labels of RFC 1123 with the underscore that some sites have; of IPv4 addresses, too.
_HOST = re.compile(
    r"(?=.{1,253}\Z)(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?"
)


def sound(text: str) -> str:
    """The URL; ValueError where its host or its port is none."""
    place = re.split(r"[/?#]", text.partition("://")[2])[0]
    host, bracket, after = place.rpartition("]")
    name, colon, port = after.partition(":")
    if bracket:
        address(host.removeprefix("["))
    if bool(bracket) is bool(name) or not (bracket or is_host_name(name)):
        raise ValueError
    if colon and not (is_digits(port) and 1 <= int(port) <= 65535):
        raise ValueError
    return text


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address; ValueError for one with a zone, too, whose text may be any."""
    if "%" in text:
        raise ValueError
    return ipaddress.ip_address(text)


def network(text: str, strict: bool = True) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """The network, likewise; not *strict*: of an address in it."""
    address(text.partition("/")[0])
    return ipaddress.ip_network(text, strict)


def is_host_name(text: str) -> bool:
    """Whether a text is a host name or an IPv4 address; no port, no IPv6 address."""
    return bool(_HOST.fullmatch(text))
