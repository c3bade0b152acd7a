"""The inventory keys for reprovisioning failed nodes, and combinations that cannot work. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainValidator

from b200kit.inventory.keys.levels import Level
from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.types import (
    HTTPS,
    Keys,
    Listed,
    Text,
    Unique,
    matching,
    one_of,
    phrase,
    url,
)

_DAY_S = 86_400
_ACTIONS = (
    "auto",
    "return",
    *(level.word for level in Level if level is not Level.REPLACE),
)
_Sha256 = Annotated[str, matching(r"([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}", "a SHA-256, 64 digits")]

_Uuid = Annotated[str, matching(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", "a UUID")]


def _sender(raw: object) -> object:
    words = raw if isinstance(raw, list | tuple) else ()
    are_words = all(isinstance(each, str) and each.strip() and each.isprintable() for each in words)
    if raw != "haproxy" and not (words and are_words):
        raise ValueError
    return tuple(words) or raw


Sender = Annotated[
    str | tuple[str, ...],
    PlainValidator(_sender),
    phrase('"haproxy", or a command as a list of words, such as ["b200-slurm"]'),
]


class Budgets(Keys):
    """Attempts of each level on one node within the window; 0: never."""

    restart_services: int = Field(2, ge=0, le=20)
    """restarts of the services"""
    reset_gpus: int = Field(2, ge=0, le=20)
    """resets of the GPUs"""
    reboot: int = Field(2, ge=0, le=20)
    """reboots"""
    power_cycle: int = Field(1, ge=0, le=20)
    """power cycles, with `bmc`"""
    reimage: int = Field(1, ge=0, le=20)
    """new images, with `reimage`"""
    window_s: int = Field(_DAY_S, ge=60, le=90 * _DAY_S)
    """the window, seconds"""


class Deadlines(Keys):
    """How long each level may take, seconds."""

    restart_services: int = Field(600, ge=1, le=7200)
    """until the services run"""
    reset_gpus: int = Field(600, ge=1, le=7200)
    """until the GPUs and the fabric are up"""
    reboot: int = Field(1800, ge=1, le=7200)
    """until the node is back; see reboot_deadline_s"""
    power_cycle: int = Field(1800, ge=1, le=7200)
    """until the node is back"""
    reimage: int = Field(5400, ge=1, le=86_400)
    """until the new image answers"""


class Reprovision(Keys):
    """How failed nodes are drained, repaired and returned to service (docs/reprovision.md)."""

    budgets: Budgets = Budgets()
    """attempts of each level"""
    deadlines: Deadlines = Deadlines()
    """time for each level"""
    repair_drain_s: int = Field(120, ge=0, le=86_400)
    """how long open streams may take to end"""
    drain_timeout: Literal["stop", "cut"] = "stop"
    """what happens then: the node waits for a person, or its open streams are cut"""
    max_same_cause: int = Field(3, ge=1, le=10_000)
    """nodes that may fail with the same check and cause before the run stops for a person"""


class Bmc(Keys):
    """The node's management controller, which switches its power."""

    address: Annotated[
        str,
        matching(rf"{HTTPS[0]}|[A-Za-z0-9.:_-]+", f"{HTTPS[1]}, or a host name"),
        AfterValidator(url),
    ]
    """URL of its Redfish service, or what `command` takes"""
    user: Text
    """user that may switch the power"""
    password: SecretRef
    """that user's password"""
    command: Listed[Text] = ()
    """command on the controller that switches the power, such as ["b200-ipmi"]; none: Redfish"""
    system: Text | None = None
    """path of the system where the service has several"""
    uuid: _Uuid | None = None
    """UUID of the node's system, as the controller reports it; None: the one that was last read on
    the node. A controller of another system is never asked to switch"""
    serial: Text | None = None
    """serial number of the node's system, likewise"""
    ca_file: Text | None = None
    """certificates of the authority behind it, PEM, a path on the controller; None: those of the
    operating system"""
    fingerprint: _Sha256 | None = None
    """SHA-256 of its own certificate, instead of an authority to trust"""
    graceful_s: int = Field(60, ge=0, le=3600)
    """how long the operating system may take to shut down before the power is cut; 0: at once"""
    switch_s: int = Field(60, ge=1, le=600)
    """how long a change of power may take"""


class Reimage(Keys):
    """What installs a new image on the node, and the trusted source of its new host key."""

    command: Annotated[Listed[Text], Field(min_length=1)]
    """command on the controller that installs the image, such as ["b200-maas", ADDRESS, SYSTEM]"""
    token: SecretRef | None = None
    """secret that the command finds as B200_TOKEN"""
    image: Text | None = None
    """image to install, as B200_IMAGE"""
    host_key: Listed[Text] = ()
    """command on the controller that prints the new host key from a trusted source"""
    host_key_file: Text | None = None
    """file of the controller that the new host key is put in"""


class ReprovisioningKeys(Keys):
    """The keys of a node about its repair (docs/reprovision.md), a part of its spec."""

    reprovision: Reprovision = Reprovision()
    """how a failed node is repaired and returned to service"""
    reprovision_action: Annotated[str, one_of(*_ACTIONS)] = "auto"
    """auto: as the findings require; a level: this one at least; return: no further action, verify
    the node as it is and return it to service (after a manual repair, or to end a transaction)"""
    reason: Text | None = None
    """why a node that passes its checks is taken out of service"""
    traffic: Unique[Sender] = ("haproxy",)
    """what sends work to the node and is drained before a repair: "haproxy", the toolkit's own
    gateways, and commands of the controller, each a list of words such as ["b200-slurm"]"""
    bmc: Bmc | None = None
    """its management controller; None: no power cycle"""
    reimage: Reimage | None = None
    """what installs a new image on it; None: no reimage"""


def references(spec: ReprovisioningKeys) -> Iterator[tuple[str, SecretRef]]:
    """Each secret by its key in the inventory."""
    if spec.bmc:
        yield "bmc.password", spec.bmc.password
    if spec.reimage and spec.reimage.token:
        yield "reimage.token", spec.reimage.token


def problems(spec: ReprovisioningKeys) -> Iterator[Problem]:
    """Combinations that cannot work."""
    if spec.reimage and spec.reimage.host_key and spec.reimage.host_key_file:
        yield Problem("reimage.host_key", "is one source of the key, host_key_file another")
    if spec.bmc:
        yield from _bmc_problems(spec.bmc)


def files(spec: ReprovisioningKeys) -> Iterator[tuple[str, str]]:
    """Files of the controller that are needed, by their key in the inventory."""
    if spec.bmc and spec.bmc.ca_file:
        yield "bmc.ca_file", spec.bmc.ca_file


def commands(spec: ReprovisioningKeys) -> Iterator[tuple[str, str]]:
    """Programs of the controller that are needed, by their key in the inventory."""
    for number, sender in enumerate(spec.traffic):
        if sender != "haproxy":
            yield f"traffic.{number}", sender[0]
    if spec.bmc and spec.bmc.command:
        yield "bmc.command", spec.bmc.command[0]
    if spec.reimage:
        yield "reimage.command", spec.reimage.command[0]


def _bmc_problems(bmc: Bmc) -> Iterator[Problem]:
    """A password is never sent over a connection that is not authenticated."""
    if not bmc.command and not bmc.address.startswith("https://"):
        yield Problem("bmc.address", 'must be a URL that begins with "https://"')
    if bmc.ca_file and bmc.fingerprint:
        yield Problem("bmc.fingerprint", "is one way to trust it, bmc.ca_file another")
    if bmc.command and (bmc.ca_file or bmc.fingerprint or bmc.system):
        key = "ca_file" if bmc.ca_file else "fingerprint" if bmc.fingerprint else "system"
        yield Problem(f"bmc.{key}", "is for Redfish: bmc.command has options of its own")
