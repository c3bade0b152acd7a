"""The mappings inside a node's inventory data: repositories, engine, secrets, waivers, and so on.

Each key stands with its type, its default and its documentation (b200kit/inventory/keys/types.py).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from b200kit.inventory.keys.types import (
    Date,
    Fingerprint,
    Keys,
    Listed,
    Port,
    Scalar,
    Table,
    Text,
    TextOrEmpty,
    Unique,
    Url,
    UrlOrEmpty,
    matching,
)

_Image = Annotated[
    str,
    matching(
        r"[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}",
        "an image by its digest, registry/name@sha256:...; a tag can come to mean another",
    ),
]


# In one case, which a token has hardly ever.
_Variable = Annotated[
    str,
    matching(
        "[A-Z_][A-Z0-9_]*|[a-z_][a-z0-9_]*", "the name of an environment variable", unsaid=True
    ),
]


class SecretRef(Keys):
    """Where the controller finds a secret; never the secret."""

    env: _Variable | None = None
    """name of an environment variable on the controller"""
    file: Text | None = None
    """path of a file on the controller"""
    command: Listed[Text] = ()
    """argument list of a command whose stdout is the secret"""


class Repository(Keys):
    """One signed apt repository the node may install from."""

    name: Annotated[str, matching(r"[a-z0-9-]+", "lower-case letters, digits and dashes")]
    """file name of the source"""
    url: Url
    """base URL"""
    key: Text
    """armored public keys, a path on the controller; the pinned one alone reaches the node"""
    fingerprint: Fingerprint
    """fingerprint the key must have"""
    suites: Text = "./"
    """suite, or "./" for a flat repository"""
    components: TextOrEmpty = ""
    """components; empty for a flat repository"""


class Engine(Keys):
    """The serving engine: hash-locked wheels from a wheelhouse the node can reach, or an image."""

    kind: Literal["cuda", "cpu", "stand-in"]
    """what the engine computes on"""
    version: Text
    """exact version, as in 0.33.0; its flags are known by it"""
    requirements: TextOrEmpty = ""
    """hash-locked requirements, a path on the controller; empty, with `system`, for vLLM's CUDA
    build: the shipped lock for that system's Python"""
    wheelhouse: UrlOrEmpty = ""
    """URL of the page that lists the wheels"""
    environment: Table[Text] = ()
    """extra environment of the serving units; no secrets"""
    flags: Table[Scalar] = ()
    """extra flags of the engine, long names without dashes"""
    name: Literal["vllm", "sglang", "trtllm"] = "vllm"
    """vLLM, SGLang or TensorRT-LLM"""
    image: _Image | None = None
    """container image that podman runs instead of the wheels"""


class Smoke(Keys):
    """The load of the smoke test and the objective it is judged by."""

    requests: int = Field(180, ge=5, le=5000)
    """requests through the gateway; so many carry a share of 95 % (docs/measure.md)"""
    rate: float = Field(6.0, ge=0.1, le=1000)
    """requests a second, Poisson arrivals"""
    input_tokens: int = Field(128, ge=1, le=1_000_000)
    """prompt tokens a request"""
    output_tokens: int = Field(64, ge=2, le=100_000)
    """output tokens a request"""
    prompts: Text = "words"
    """"words": random ones; "texts": running text that comes with b200kit; or the path on the
    controller of the site's own, one a line, as JSON in a file that ends in .jsonl; longer ones are
    cut to `input_tokens`"""
    ttft_ms: float = Field(100.0, ge=0.1, le=600_000)
    """goodput objective for TTFT"""
    tpot_ms: float = Field(100.0, ge=0.1, le=600_000)
    """goodput objective for TPOT"""
    share: float = Field(0.95, ge=0.5, le=1)
    """share of the requests that must meet both"""
    direct_requests: int = Field(80, ge=5, le=5000)
    """requests to each replica directly; so many find one that is 10 % slower"""
    replica_slowdown: float | None = Field(0.1, ge=0.01, le=100)
    """slow-down of one replica against the others that must be found, as a share; half of it is
    the margin within which they are alike; None: they are not compared"""
    stall_ms: float = Field(1000.0, ge=10, le=600_000)
    """a wait for a token, beyond the usual one, that fails the test"""
    golden_tokens: int = Field(32, ge=0, le=1024)
    """tokens asked of each replica for a golden prompt, which tell whether its answers are right;
    0: answers are not read"""
    golden_tolerance: float = Field(0.5, ge=0.001, le=10)
    """distance of two log-probabilities (nats) that rounding explains"""
    loop_lag_ms: float = Field(10.0, ge=1, le=1000)
    """how late the client itself may be at P99 before its numbers are invalid; more than the
    default only where no latency is measured anyway, as in an emulated machine"""


TAKES_OUT = (
    *("identity", "nvml", "fabric", "nvlink", "p2p", "ecc", "remap", "repair", "recovery"),
    *("inforom", "xid", "sxid", "pcie", "thermal", "clocks", "placement"),
)
"""What a replica's answers and their time depend on; all else that the gate judges can wait."""


class Watchdog(Keys):
    """When the watchdog takes a replica for hung, when it stops restarting it, and which faults of
    the node take replicas out."""

    interval_s: float = Field(15.0, ge=1, le=3600)
    """seconds between two probes of a replica"""
    deadline_s: float = Field(20.0, ge=0.1, le=600)
    """seconds a probe may take while the replica makes no token for anybody"""
    strikes: int = Field(2, ge=1, le=20)
    """failures in a row that eject a replica"""
    stall_s: float = Field(60.0, ge=1, le=3600)
    """seconds in which requests wait and no token is made: ejected"""
    ejections: int = Field(3, ge=1, le=20)
    """ejections within the window after which the node is marked"""
    window_s: float = Field(3600.0, ge=60, le=604_800)
    """the window, seconds"""
    slower: float = Field(3.0, ge=1.5, le=1e6)
    """how many times as long as with at least two other replicas of the node a replica's tokens may
    take, over half a minute; then it is ejected"""
    health_check_s: float = Field(10.0, ge=1, le=86_400)
    """seconds between two health checks while it serves, by the judge that let it serve"""
    health_check_deadline_s: float = Field(45.0, ge=5, le=600)
    """seconds after which a health check that hangs is ended; it has seen nothing"""
    confirm: int = Field(2, ge=1, le=20)
    """how many of the last `health_checks` must see a fault before it counts"""
    health_checks: int = Field(3, ge=1, le=20)
    """the last health checks that count"""
    clear: int = Field(3, ge=1, le=20)
    """health checks in a row that must find it gone before it is over"""
    takes_out: Unique[Text] = TAKES_OUT
    """checks, or first words of their ids, whose confirmed faults take the replicas that they touch
    out of the gateway; all others are only reported"""
    mends: Unique[Literal["restart-services"]] = ()
    """levels of remediation that a node may do by itself for a confirmed fault: restart-services
    restarts the persistence daemon, or the fabric manager with all replicas stopped and all GPUs
    reset, once the replicas that the fault took out are idle; all else waits for reprovision.py"""
    mend_most: int = Field(2, ge=1, le=20)
    """such restarts within `mend_window_s`, after which a person decides"""
    mend_window_s: float = Field(3600.0, ge=60, le=604_800)
    """their window, seconds"""

    @property
    def longest_health_check_s(self) -> float:
        """Seconds from the end of a health check until the next is ended that hangs."""
        return self.health_check_s + self.health_check_deadline_s


class Waiver(Keys):
    """A finding that is accepted for a while: who says so, why, and until when."""

    check: Text
    """id of the check"""
    owner: Text
    """who answers for it"""
    reason: Text
    """why it is accepted"""
    until: Date
    """last day it holds"""
    subject: Text | None = None
    """only for this subject, such as "GPU 5" """


class Allow(Keys):
    """One port that the firewall opens, and to whom."""

    port: Port
    """port on the node"""
    sources: Listed[Text] = Field(alias="from")
    """who may connect: an address, a network such as "10.0.0.0/24", a name of `networks`, or "any" 
    """
    protocol: Literal["tcp", "udp"] = "tcp"
    """protocol"""


class Firewall(Keys):
    """What may reach the node from outside, besides SSH, ICMP and answers to its own requests."""

    allow: Listed[Allow] = ()
    """open ports"""
    networks: Table[Listed[Text]] = ()
    """names for lists of addresses and networks, to use in `from`"""
    rollback_s: int = Field(60, ge=10, le=600)
    """how long new rules stay when no new connection to the node succeeds"""


class Storage(Keys):
    """Where models lie: a file system of their own on local disks, or a mount that is there."""

    mount: Annotated[
        str, matching(r"(/[A-Za-z0-9_][A-Za-z0-9._-]*)+", "an absolute path without blanks")
    ] = "/srv/models"
    """where models lie"""
    disks: Unique[Annotated[str, matching(r"/dev/\S+", "a device path")]] = ()
    """disks it is made of, best by /dev/disk/by-id; none: the mount must be there already"""
    level: Literal["raid0"] = "raid0"
    """how several disks are joined"""
    filesystem: Literal["ext4", "xfs"] = "ext4"
    """file system"""
    label: Annotated[
        str, matching(r"[A-Za-z0-9._-]{1,12}", "1 to 12 letters, digits, dots or dashes")
    ] = "b200-models"
    """label of the file system and name of the array"""
    owner: Annotated[
        str, matching(r"[a-z_][a-z0-9_-]*:[a-z_][a-z0-9_-]*", 'an owner such as "root:root"')
    ] = "root:root"
    """owner of the mounted directory"""
    mode: Annotated[str, matching(r"0[0-7]{3}", 'a mode such as "0755"')] = "0755"
    """its rights"""
    min_free_gib: int = Field(0, ge=0, le=1_000_000)
    """GiB that must be free there until the model is there"""
