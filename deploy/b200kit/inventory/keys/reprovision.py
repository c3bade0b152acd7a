"""What an inventory may say of mending failed nodes, and what of it cannot be. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.types import Keys, Listed, Text, matching

if TYPE_CHECKING:
    from b200kit.inventory.spec import NodeSpec

TRAFFIC = ("haproxy", "slurm", "kubernetes", "command")
_DAY_S = 86_400
_Sha256 = Annotated[str, matching(r"([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}", "a SHA-256, 64 digits")]


class Budgets(Keys):
    """How often each rung may be tried on one node within the window; 0: never."""

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
    """How long each rung may take, seconds."""

    restart_services: int = Field(300, ge=1, le=7200)
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
    """How failed nodes are taken out, mended and brought back (docs/reprovision.md)."""

    budgets: Budgets = Budgets()
    """attempts a rung"""
    deadlines: Deadlines = Deadlines()
    """time a rung"""
    drain_deadline_s: int = Field(120, ge=0, le=86_400)
    """how long open streams may take to end"""
    drain_timeout: Literal["stop", "cut"] = "stop"
    """what happens then: the node waits for a person, or its open streams are cut"""
    canary_percent: int = Field(5, ge=1, le=100)
    """share of a whole node's load that it comes back with, percent"""
    canary_duration_s: int = Field(60, ge=0, le=86_400)
    """how long it is watched at that share"""
    max_unavailable: int = Field(1, ge=1, le=10_000)
    """nodes out of service at once by this run: the size of a wave"""
    max_same_cause: int = Field(3, ge=1, le=10_000)
    """nodes that may fail alike (same check, same cause) before the run asks a person"""
    min_available: int | None = Field(None, ge=0, le=10_000)
    """nodes that must go on serving; all of the inventory less max_unavailable when None"""
    owner_ttl_s: int = Field(14_400, ge=60, le=7 * _DAY_S)
    """how long a node stays its operator's without a sign"""


class Bmc(Keys):
    """The node's management controller, which switches its power."""

    address: Text
    """URL of its Redfish service, or host name for IPMI"""
    user: Text
    """user that may switch the power"""
    password: SecretRef
    """that user's password"""
    protocol: Literal["redfish", "ipmi"] = "redfish"
    """how it is spoken to"""
    system: Text | None = None
    """path of the system where the service has several"""
    ca_file: Text | None = None
    """certificates of the authority behind it, PEM, a path on the controller; None: those of the
    operating system"""
    fingerprint: _Sha256 | None = None
    """SHA-256 of its own certificate, instead of an authority to trust"""
    graceful_s: int = Field(60, ge=0, le=3600)
    """how long the operating system may take to shut down before the power is cut; 0: not asked"""
    switch_s: int = Field(60, ge=1, le=600)
    """how long its power may take to be on or off once it was told"""


class Reimage(Keys):
    """Who puts a new image on the node, and where its new host key can be trusted to come from."""

    method: Literal["maas", "command"]
    """MAAS, or a command of the site's own"""
    command: Listed[Text] = ()
    """command, run on the controller"""
    url: Text | None = None
    """URL of MAAS"""
    system: Text | None = None
    """the node's system id there"""
    token: SecretRef | None = None
    """API key for MAAS"""
    image: Text | None = None
    """image or distribution to deploy; its default when None"""
    host_key: Listed[Text] = ()
    """command on the controller that prints the new host key from a trusted source"""
    host_key_file: Text | None = None
    """file of the controller that the new host key is put in"""
    ca_file: Text | None = None
    """certificates of the authority behind MAAS, PEM, a path on the controller; None: those of the
    operating system"""


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
    if spec.reimage and spec.reimage.method == "command" and not spec.reimage.command:
        yield Problem("reimage.command", 'is required where reimage.method is "command"')
    if (
        spec.reimage
        and spec.reimage.method == "maas"
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
    if spec.bmc and spec.bmc.ca_file:
        yield "bmc.ca_file", spec.bmc.ca_file
    if spec.reimage and spec.reimage.ca_file:
        yield "reimage.ca_file", spec.reimage.ca_file


def _bmc_problems(bmc: Bmc) -> Iterator[Problem]:
    """A password never goes over a connection that nobody vouches for."""
    if bmc.protocol == "redfish" and not bmc.address.startswith("https://"):
        yield Problem("bmc.address", 'must be a URL that begins with "https://"')
    if bmc.protocol == "ipmi" and "/" in bmc.address:
        yield Problem("bmc.address", "must be a host name or an address for IPMI")
    if bmc.ca_file and bmc.fingerprint:
        yield Problem("bmc.fingerprint", "is one way to trust it, bmc.ca_file another")
    if bmc.protocol == "ipmi" and (bmc.ca_file or bmc.fingerprint):
        yield Problem("bmc.ca_file", "IPMI has no certificates")
