"""The mappings inside a node's inventory data: repositories, engine, secrets, waivers, and so on.

Each is a dataclass whose fields carry their parser and documentation
(b200kit/inventory/keys/parsers.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.inventory.keys import parsers
from b200kit.inventory.keys.parsers import setting

URL = parsers.matching(r"(https?|file)://\S+", "an http(s):// or file:// URL")
PORT = parsers.integer(1, 65535)


@dataclass(frozen=True)
class SecretRef:
    """Where the controller finds a secret; never the secret."""

    env: str | None = setting(
        parsers.text, "name of an environment variable on the controller", None
    )
    file: str | None = setting(parsers.text, "path of a file on the controller", None)
    command: tuple[str, ...] = setting(
        parsers.sequence(parsers.text), "argument list of a command whose stdout is the secret", ()
    )


@dataclass(frozen=True)
class Repository:
    """One signed apt repository the node may install from."""

    name: str = setting(
        parsers.matching(r"[a-z0-9-]+", "lower-case letters, digits and dashes"),
        "file name of the source",
    )
    url: str = setting(URL, "base URL")
    key: str = setting(parsers.text, "armored public key, a path on the controller")
    fingerprint: str = setting(
        parsers.matching(r"[0-9A-Fa-f]{40}", "the 40 hexadecimal digits of the key's fingerprint"),
        "fingerprint the key must have",
    )
    suites: str = setting(parsers.text, 'suite, or "./" for a flat repository', "./")
    components: str = setting(
        parsers.or_empty(parsers.text),
        "components; empty for a flat repository",
        "",
    )


@dataclass(frozen=True)
class Engine:
    """The serving engine: hash-locked wheels from a wheelhouse the node can reach, or an image."""

    kind: str = setting(parsers.one_of("cuda", "cpu", "stand-in"), "what the engine computes on")
    version: str = setting(parsers.text, "exact version, as in 0.33.0; its flags are known by it")
    requirements: str = setting(
        parsers.or_empty(parsers.text), "hash-locked requirements, a path on the controller", ""
    )
    wheelhouse: str = setting(parsers.or_empty(URL), "URL of the page that lists the wheels", "")
    environment: tuple[tuple[str, str], ...] = setting(
        parsers.table(parsers.text), "extra environment of the serving units; no secrets", ()
    )
    flags: tuple[tuple[str, str | int | float | bool], ...] = setting(
        parsers.table(parsers.scalar), "extra flags of the engine, long names without dashes", ()
    )
    name: str = setting(
        parsers.one_of("vllm", "sglang", "trtllm"), "vLLM, SGLang or TensorRT-LLM", "vllm"
    )
    image: str | None = setting(
        parsers.optional(
            parsers.matching(
                r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}",
                "an image by its digest, registry/name@sha256:...; a tag can come to mean another",
            )
        ),
        "container image that podman runs instead of the wheels",
        None,
    )


@dataclass(frozen=True)
class Smoke:
    """The load of the smoke test and the objective it is judged by."""

    requests: int = setting(parsers.integer(5, 5000), "requests through the gateway", 60)
    rate: float = setting(parsers.number(0.1, 1000), "requests a second, Poisson arrivals", 6.0)
    input_tokens: int = setting(parsers.integer(1, 1_000_000), "prompt tokens asked for", 128)
    output_tokens: int = setting(parsers.integer(2, 100_000), "output tokens asked for", 64)
    ttft_ms: float = setting(parsers.number(0.1, 600_000), "goodput objective for TTFT", 100.0)
    tpot_ms: float = setting(parsers.number(0.1, 600_000), "goodput objective for TPOT", 100.0)
    loop_lag_ms: float = setting(
        parsers.number(1, 1000),
        "how late the client itself may be at P99 before its numbers are invalid; more than the "
        "default only where no latency is measured anyway, as in an emulated machine",
        10.0,
    )


@dataclass(frozen=True)
class Canary:
    """When the watchdog takes a replica for hung, and when it stops restarting it."""

    interval_s: float = setting(
        parsers.number(1, 3600), "seconds between two canaries of a replica", 15.0
    )
    deadline_s: float = setting(
        parsers.number(0.1, 600),
        "seconds a canary may take while the replica makes no token for anybody",
        20.0,
    )
    strikes: int = setting(parsers.integer(1, 20), "failures in a row that eject a replica", 2)
    stall_s: float = setting(
        parsers.number(1, 3600),
        "seconds in which requests wait and no token is made: ejected",
        60.0,
    )
    ejections: int = setting(
        parsers.integer(1, 20), "ejections within the window after which the node is marked", 3
    )
    window_s: float = setting(parsers.number(60, 604_800), "the window, seconds", 3600.0)


@dataclass(frozen=True)
class Waiver:
    """A finding that is accepted for a while: who says so, why, and until when."""

    check: str = setting(parsers.text, "id of the check")
    owner: str = setting(parsers.text, "who answers for it")
    reason: str = setting(parsers.text, "why it is accepted")
    until: str = setting(
        parsers.matching(r"\d{4}-\d\d-\d\d", "a date YYYY-MM-DD"), "last day it holds"
    )
    subject: str | None = setting(
        parsers.optional(parsers.text), 'only for this subject, such as "GPU 5"', None
    )


@dataclass(frozen=True)
class Allow:
    """One port that the firewall opens, and to whom."""

    port: int = setting(PORT, "port on the node")
    sources: tuple[str, ...] = setting(
        parsers.sequence(parsers.text),
        'who may connect: an address, a network such as "10.0.0.0/24", a name of `networks`, '
        'or "any"',
        key="from",
    )
    protocol: str = setting(parsers.one_of("tcp", "udp"), "protocol", "tcp")


@dataclass(frozen=True)
class Firewall:
    """What may reach the node from outside, besides SSH, ICMP and answers to its own requests."""

    allow: tuple[Allow, ...] = setting(parsers.sequence(parsers.nested(Allow)), "open ports", ())
    networks: tuple[tuple[str, tuple[str, ...]], ...] = setting(
        parsers.table(parsers.sequence(parsers.text)),
        "names for lists of addresses and networks, to use in `from`",
        (),
    )
    rollback_s: int = setting(
        parsers.integer(10, 600),
        "how long new rules stay when no new connection to the node succeeds",
        60,
    )


@dataclass(frozen=True)
class Storage:
    """Where models lie: a file system of their own on local disks, or a mount that is there."""

    mount: str = setting(
        parsers.matching(r"(/[A-Za-z0-9_][A-Za-z0-9._-]*)+", "an absolute path without blanks"),
        "where models lie",
        "/srv/models",
    )
    disks: tuple[str, ...] = setting(
        parsers.sequence(parsers.matching(r"/dev/\S+", "a device path")),
        "disks it is made of, best by /dev/disk/by-id; none: the mount must be there already",
        (),
    )
    level: str = setting(parsers.one_of("raid0"), "how several disks are joined", "raid0")
    filesystem: str = setting(parsers.one_of("ext4", "xfs"), "file system", "ext4")
    label: str = setting(
        parsers.matching(r"[A-Za-z0-9._-]{1,12}", "1 to 12 letters, digits, dots or dashes"),
        "label of the file system and name of the array",
        "b200-models",
    )
    owner: str = setting(
        parsers.matching(r"[a-z_][a-z0-9_-]*:[a-z_][a-z0-9_-]*", 'an owner such as "root:root"'),
        "owner of the mounted directory",
        "root:root",
    )
    mode: str = setting(
        parsers.matching(r"0[0-7]{3}", 'a mode such as "0755"'), "its rights", "0755"
    )
    room_gib: int = setting(
        parsers.integer(0, 1_000_000), "GiB that must be free there until the model is there", 0
    )
    erase: tuple[str, ...] = setting(
        parsers.sequence(
            parsers.matching(r"/dev/disk/by-(id|path)/\S+", "a path below /dev/disk/by-id")
        ),
        "those of `disks` whose data may be destroyed; never the disk the system is on",
        (),
    )
