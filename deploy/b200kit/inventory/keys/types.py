"""What inventory keys are made of: models (pydantic) whose fields carry type and documentation.

One declaration serves validation, defaults, the did-you-mean of a misspelt key
(keys/problem.py) and docs/reference/inventory.md (cli/reference_pages.py).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainValidator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from b200kit.node.lib import timestamp
from b200kit.node.lib.url import address, is_host_name, network, sound

T = TypeVar("T")


class Keys(BaseModel):
    """The keys of one mapping in the inventory. Strict: True is no number, "4" neither."""

    model_config = ConfigDict(
        # Most are only parts of another's validator.
        defer_build=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        strict=True,
        use_attribute_docstrings=True,
    )

    def replace(self, **values: Any) -> Self:
        """A copy with other *values*, which are not validated again."""
        if unknown := values.keys() - type(self).model_fields.keys():
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        return self.model_copy(update=values)


def phrase(expected: str, *, unsaid: bool = False, **constraints: Any) -> Any:
    """What a value must be, in the words of refusals and of the reference page.

    *unsaid*: a refusal does not repeat what was there instead, as it may be a secret.
    """
    extra: dict[str, Any] = {"expected": expected, **({"unsaid": True} if unsaid else {})}
    return Field(json_schema_extra=extra, **constraints)


def matching(pattern: str, expected: str, *, unsaid: bool = False) -> Any:
    """A string that matches *pattern* as a whole; *expected* describes it, *unsaid* as above."""
    return phrase(expected, unsaid=unsaid, pattern=f"^(?:{pattern})$")


def one_of(*choices: str) -> Any:
    """One of words that are computed; Literal is for those that are written out."""
    return matching("|".join(choices), f"one of {', '.join(choices)}")


def _address(text: str) -> str:
    address(text)
    return text


def _host(text: str) -> str:
    return text if is_host_name(text) else _address(text)


def _network(text: str) -> str:
    network(text)
    return text


def is_everybody(networks: Iterable[str]) -> bool:
    """Whether networks together have an eighth of the addresses of IPv4 or of IPv6.

    2000::/3 is all that is public of IPv6, and no site has so much; 10.0.0.0/8 is a 256th.
    """
    found = [_of_version(ipaddress.ip_network(network)) for network in networks]
    fours = [network for network in found if isinstance(network, ipaddress.IPv4Network)]
    sixes = [network for network in found if isinstance(network, ipaddress.IPv6Network)]
    shares = (
        sum(2.0**-network.prefixlen for network in ipaddress.collapse_addresses(fours)),
        sum(2.0**-network.prefixlen for network in ipaddress.collapse_addresses(sixes)),
    )
    return max(shares) >= 1 / 8


def _of_version(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network,
) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """IPv4 where it is written as IPv6 (::ffff:0:0/96)."""
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is None or network.prefixlen < 96:
        return network
    return ipaddress.IPv4Network((mapped, network.prefixlen - 96))


def url(text: str) -> str:
    """A URL with a host and, where it has a port, one; a name of a host alone, or a file's URL."""
    return sound(text) if text.startswith("http") and "://" in text else text


def is_url(text: str, pattern: str) -> bool:
    """Whether a text is a URL of this form."""
    try:
        return bool(re.fullmatch(pattern, url(text)))
    except ValueError:
        return False


def _date(text: str) -> str:
    timestamp.day(text)
    return text


def _scalar(raw: object) -> object:
    if not isinstance(raw, str | int | float | bool) or (type(raw) is int and abs(raw) >= 1 << 64):
        raise ValueError
    return raw.encode().decode() if isinstance(raw, str) else raw  # no lone surrogate


def _as_tuple(raw: object) -> object:
    return tuple(raw) if isinstance(raw, list) else raw


def _each_once(listed: tuple[Any, ...]) -> tuple[Any, ...]:
    names = [getattr(one, "name", one) for one in listed]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise PydanticCustomError("twice", "{name}", {"name": twice})
    return listed


class _Table:
    """A mapping in the inventory, sorted pairs in the model, which can be hashed."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        pair = get_args(source)[0]
        mapping = handler.generate_schema(dict[str, get_args(pair)[1]])  # type: ignore[misc]
        return core_schema.no_info_after_validator_function(
            lambda table: tuple(sorted(table.items())),
            mapping,
            serialization=core_schema.wrap_serializer_function_ser_schema(
                lambda pairs, handler: handler(dict(pairs)), schema=mapping
            ),
        )


class _OrNone:
    """None is taken in the inventory; resolving the defaults leaves none."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.nullable_schema(handler(source))


# No user and password: a URL lies readable in units, apt's sources and argument lists.
_HTTP = r"https?://[^\s/?#@]+"
HTTP = rf"{_HTTP}(/[^\s?#]*)?"
_URL = rf"{HTTP}|file://[^\s@]+"
_URL_EXPECTED = "an http(s):// or file:// URL without a user or a query in it"

HTTPS = (r"https://[^\s/?#@]+([/?#][!-~]*)?", "an https:// URL without a user in it")
"""Where a key or a password travels, or the URL itself is one."""

_TEXT = r"[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*"
Text = Annotated[str, matching(_TEXT, "a non-empty string")]
TextOrEmpty = Annotated[str, matching(f"{_TEXT}|", '"" or a non-empty string')]
BaseUrl = Annotated[
    str,
    matching(HTTP, "an http(s):// URL without a user in it"),
    AfterValidator(url),
]
Url = Annotated[str, matching(_URL, _URL_EXPECTED), AfterValidator(url)]
UrlOrEmpty = Annotated[str, matching(_URL + "|", f'"" or {_URL_EXPECTED}'), AfterValidator(url)]
HostName = Annotated[str, AfterValidator(_host), phrase("a host name or an address, no port")]
CpuList = Annotated[str, matching(r"[0-9,-]+", 'a CPU list such as "4-7"')]
Address = Annotated[str, AfterValidator(_address), phrase("an IP address")]
Network = Annotated[
    str, AfterValidator(_network), phrase('an address or a network such as "10.0.0.0/24"')
]
Fingerprint = Annotated[
    str, matching(r"[0-9A-Fa-f]{40}", "the 40 hexadecimal digits of the key's fingerprint")
]
Date = Annotated[str, AfterValidator(_date), phrase("a date YYYY-MM-DD")]
Port = Annotated[int, Field(ge=1, le=65535)]
Scalar = Annotated[
    str | int | float | bool,
    PlainValidator(_scalar),
    phrase("a string, a number or True/False"),
]
Listed = Annotated[tuple[T, ...], BeforeValidator(_as_tuple)]
# Values, or things by their `name`, each of which may be given once.
Unique = Annotated[tuple[T, ...], BeforeValidator(_as_tuple), AfterValidator(_each_once)]
Table = Annotated[tuple[tuple[str, T], ...], _Table()]
# A figure that may be None in an inventory until inventory/defaults.py resolves it.
Resolved = Annotated[T, _OrNone()]
UNRESOLVED: Any = None
