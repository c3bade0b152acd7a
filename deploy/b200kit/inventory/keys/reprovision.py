"""What an inventory may say of mending failed nodes, and what of it cannot be. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from b200kit.inventory.keys import parsers
from b200kit.inventory.keys.parsers import Problem, setting
from b200kit.inventory.keys.parts import SecretRef

if TYPE_CHECKING:
    from b200kit.inventory.spec import NodeSpec

TRAFFIC = ("haproxy", "slurm", "kubernetes", "command")
_DAY_S = 86_400
_COMMAND = parsers.sequence(parsers.text)


@dataclass(frozen=True)
class Budgets:
    """How often each rung may be tried on one node within the window; 0: never."""

    restart_services: int = setting(parsers.integer(0, 20), "restarts of the services", 2)
    reset_gpus: int = setting(parsers.integer(0, 20), "resets of the GPUs", 2)
    reboot: int = setting(parsers.integer(0, 20), "reboots", 2)
    power_cycle: int = setting(parsers.integer(0, 20), "power cycles, with `bmc`", 1)
    reimage: int = setting(parsers.integer(0, 20), "new images, with `reimage`", 1)
    window_s: int = setting(parsers.integer(60, 90 * _DAY_S), "the window, seconds", _DAY_S)


@dataclass(frozen=True)
class Deadlines:
    """How long each rung may take, seconds."""

    restart_services: int = setting(parsers.integer(1, 7200), "until the services run", 300)
    reset_gpus: int = setting(parsers.integer(1, 7200), "until the GPUs and the fabric are up", 600)
    reboot: int = setting(
        parsers.integer(1, 7200), "until the node is back; see reboot_deadline_s", 1800
    )
    power_cycle: int = setting(parsers.integer(1, 7200), "until the node is back", 1800)
    reimage: int = setting(parsers.integer(1, 86_400), "until the new image answers", 5400)


@dataclass(frozen=True)
class Reprovision:
    """How failed nodes are taken out, mended and brought back (docs/reprovision.md)."""

    budgets: Budgets = setting(parsers.nested(Budgets), "attempts a rung", Budgets())
    deadlines: Deadlines = setting(parsers.nested(Deadlines), "time a rung", Deadlines())
    drain_deadline_s: int = setting(
        parsers.integer(0, 86_400), "how long open streams may take to end", 120
    )
    drain_timeout: str = setting(
        parsers.one_of("stop", "cut"),
        "what happens then: the node waits for a person, or its open streams are cut",
        "stop",
    )
    canary_share: int = setting(
        parsers.integer(1, 100), "share of a whole node's load that it comes back with, percent", 5
    )
    canary_watch_s: int = setting(
        parsers.integer(0, 86_400), "how long it is watched at that share", 60
    )
    max_out: int = setting(
        parsers.integer(1, 10_000),
        "nodes out of service at once by this run: the size of a wave",
        1,
    )
    max_alike: int = setting(
        parsers.integer(1, 10_000),
        "nodes that may fail alike (same check, same cause) before the run asks a person",
        3,
    )
    floor: int | None = setting(
        parsers.optional(parsers.integer(0, 10_000)),
        "nodes that must go on serving; all of the inventory less max_out when None",
        None,
    )
    owner_ttl_s: int = setting(
        parsers.integer(60, 7 * _DAY_S),
        "how long a node stays its operator's without a sign",
        14_400,
    )


@dataclass(frozen=True)
class Bmc:
    """The node's management controller, which switches its power."""

    address: str = setting(parsers.text, "URL of its Redfish service, or host name for IPMI")
    user: str = setting(parsers.text, "user that may switch the power")
    password: SecretRef = setting(parsers.nested(SecretRef), "that user's password")
    protocol: str = setting(parsers.one_of("redfish", "ipmi"), "how it is spoken to", "redfish")
    system: str | None = setting(
        parsers.optional(parsers.text), "path of the system where the service has several", None
    )
    trust: str | None = setting(
        parsers.optional(parsers.text),
        "certificates of the authority behind it, PEM, a path on the controller; "
        "None: those of the operating system",
        None,
    )
    fingerprint: str | None = setting(
        parsers.optional(
            parsers.matching(r"([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}", "a SHA-256, 64 digits")
        ),
        "SHA-256 of its own certificate, instead of an authority to trust",
        None,
    )
    graceful_s: int = setting(
        parsers.integer(0, 3600),
        "how long the operating system may take to shut down before the power is cut; 0: not asked",
        60,
    )
    switch_s: int = setting(
        parsers.integer(1, 600), "how long its power may take to be on or off once it was told", 60
    )


@dataclass(frozen=True)
class Reimage:
    """Who puts a new image on the node, and where its new host key can be trusted to come from."""

    by: str = setting(parsers.one_of("maas", "command"), "MAAS, or a command of the site's own")
    command: tuple[str, ...] = setting(_COMMAND, "command, run on the controller", ())
    url: str | None = setting(parsers.optional(parsers.text), "URL of MAAS", None)
    system: str | None = setting(parsers.optional(parsers.text), "the node's system id there", None)
    token: SecretRef | None = setting(
        parsers.optional(parsers.nested(SecretRef)), "API key for MAAS", None
    )
    image: str | None = setting(
        parsers.optional(parsers.text),
        "image or distribution to deploy; its default when None",
        None,
    )
    host_key: tuple[str, ...] = setting(
        _COMMAND, "command on the controller that prints the new host key from a trusted source", ()
    )
    host_key_file: str | None = setting(
        parsers.optional(parsers.text),
        "file of the controller that the new host key is put in",
        None,
    )
    trust: str | None = setting(
        parsers.optional(parsers.text),
        "certificates of the authority behind MAAS, PEM, a path on the controller; "
        "None: those of the operating system",
        None,
    )


def references(spec: NodeSpec) -> Iterator[tuple[str, SecretRef]]:
    """Each secret by its key in the inventory."""
    if spec.bmc:
        yield "bmc.password", spec.bmc.password
    if spec.reimage and spec.reimage.token:
        yield "reimage.token", spec.reimage.token


def problems(spec: NodeSpec) -> Iterator[Problem]:
    """Combinations that cannot work."""
    if "command" in spec.traffic and not spec.traffic_command:
        yield Problem("traffic_command", 'is required where traffic names "command"')
    for name in sorted({name for name in spec.traffic if spec.traffic.count(name) > 1}):
        yield Problem("traffic", f'"{name}" is given twice')
    if spec.reimage and spec.reimage.by == "command" and not spec.reimage.command:
        yield Problem("reimage.command", 'is required where reimage.by is "command"')
    if (
        spec.reimage
        and spec.reimage.by == "maas"
        and not (spec.reimage.url and spec.reimage.system and spec.reimage.token)
    ):
        yield Problem("reimage.url", "MAAS needs url, system and token")
    if spec.reimage and spec.reimage.host_key and spec.reimage.host_key_file:
        yield Problem("reimage.host_key", "is one source of the key, host_key_file another")
    if spec.reimage and spec.reimage.url and not spec.reimage.url.startswith("https://"):
        yield Problem("reimage.url", 'must begin with "https://": the API key travels in it')
    if spec.bmc:
        yield from _bmc_problems(spec.bmc)


def files(spec: NodeSpec) -> Iterator[tuple[str, str]]:
    """Files of the controller that are needed, by their key in the inventory."""
    if spec.bmc and spec.bmc.trust:
        yield "bmc.trust", spec.bmc.trust
    if spec.reimage and spec.reimage.trust:
        yield "reimage.trust", spec.reimage.trust


def _bmc_problems(bmc: Bmc) -> Iterator[Problem]:
    """A password never goes over a connection that nobody vouches for."""
    if bmc.protocol == "redfish" and not bmc.address.startswith("https://"):
        yield Problem("bmc.address", 'must be a URL that begins with "https://"')
    if bmc.protocol == "ipmi" and "/" in bmc.address:
        yield Problem("bmc.address", "must be a host name or an address for IPMI")
    if bmc.trust and bmc.fingerprint:
        yield Problem("bmc.fingerprint", "is one way to trust it, bmc.trust another")
    if bmc.protocol == "ipmi" and (bmc.trust or bmc.fingerprint):
        yield Problem("bmc.trust", "IPMI has no certificates")
