"""What the kit needs of a serving engine, whichever it is. Pure.

One replica is described by `Settings`; an `EngineKind` turns it into a configuration file, an
argument list and an environment, and says what the engine can do: which path reports its health,
under which names it counts, in what ways nodes are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from b200kit.node.lib import cpulist
from b200kit.node.lib.readings import is_digits
from b200kit.node.placement.layout import Replica, Shape

Scalar = str | int | float | bool
Value = Scalar | list[int] | list[str] | Mapping[str, "Value"]


@dataclass(frozen=True)
class EngineGroup:
    """This node's part of one engine that is spread over several nodes."""

    nnodes: int
    node_rank: int
    master_addr: str
    master_port: int
    # This node's own address on the network of the group, and the interface that has it.
    address: str
    interface: str
    # Addresses of the other members: with its own, the only ones this node's engine may talk to.
    peers: tuple[str, ...] = ()
    # How the nodes share the model: "pipeline", "tensor", or "data" (each has experts and requests
    # of its own).
    join: str = "pipeline"
    # With "data": the port on which all ranks meet.
    rpc_port: int = 29550

    @property
    def headless(self) -> bool:
        """Whether this node only works for the head and answers no requests itself."""
        return self.node_rank > 0 and self.join != "data"


@dataclass(frozen=True)
class Settings:
    """Every setting of one replica, independent of the engine.

    *kind* is what it computes on: "cuda", "cpu" or "stand-in". *numa_bind* is the NUMA node of each
    of its GPUs where the engine is to bind itself, empty where systemd does, *numa_bind_cpus* the
    CPUs that the worker of each GPU may use. *flags* are extra ones,
    the catalogue's below the inventory's; they stand in the engine's own words and win.
    """

    model_dir: str
    served_name: str
    replica: Replica
    host: str
    port: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    kind: str = "cuda"
    numa_bind: tuple[int, ...] = ()
    numa_bind_cpus: tuple[str, ...] = ()
    flags: Mapping[str, Scalar] = field(default_factory=dict)
    stop_grace_s: int = 20
    group: EngineGroup | None = None
    # Where compiled kernels are stored, by default one directory a replica.
    cache_dir: str = ""
    # How long the unit lets the engine load, in seconds: no limit of its own may end it earlier.
    ready_s: int = 1800

    @property
    def shape(self) -> Replica:
        """The replica as the engine is given it: one process where CPUs stand for its GPUs."""
        alone = is_one_process(self.kind, self.replica)
        return replace(self.replica, tp=1, pp=1, dp=1) if alone else self.replica

    @property
    def cache(self) -> str:
        """The directory of compiled kernels."""
        return self.cache_dir or f"/var/cache/vllm/{self.replica.replica}"

    @property
    def runtime(self) -> str:
        """The directory of sockets and temporary files."""
        return f"/run/vllm-{self.replica.replica}"

    @property
    def config_path(self) -> str:
        """Where the configuration of this replica lies on the node."""
        return f"/etc/vllm/replica-{self.replica.replica}.yaml"


def is_one_process(kind: str, replica: Replica) -> bool:
    """Whether one process stands for all GPUs of a replica: on CPUs, where it has fewer of them.

    Every rank needs a CPU of its own; ranks that share one wait for each other at every layer.
    """
    ranks = replica.tp * replica.pp * replica.dp
    return kind != "cuda" and len(cpulist.parse(replica.cpus)) < ranks


@dataclass(frozen=True)
class EngineKind:
    """One engine behind the contract.

    *argv* begins with a program below the engine's bin directory. *metrics* names the series of
    each of ours (`METRICS`) that the engine counts. *key_variable* carries the API key; None where
    the engine takes none from its environment, so that only the gateway checks it. *variables*
    begin the names of its environment variables. *owned* are flags that the kit sets, each with
    what the inventory says instead; *refused* are flags and variables that no server should have,
    each with the reason. *groups* are the ways in which nodes can be joined. *binds_numa* says
    whether it can bind each worker to a NUMA node of its own. *kv_flag* selects the format of the
    KV cache, *kv_words* are its values by ours (kv_cache.py). *drafted* are the tokens that the
    checkpoint's own draft layers add to a step under given flags, *prefix_caching* says whether
    prefixes are kept. *refuses* says why it cannot be given a shape; empty when it can.
    *refuses_by_503* says that it answers 503 only to a request that another instance may have.
    """

    name: str
    # The packages it comes as.
    distributions: tuple[str, ...]
    health: str
    key_variable: str | None
    metrics: Mapping[str, str]
    variables: tuple[str, ...]
    owned: Mapping[str, str]
    refused: Mapping[str, str]
    groups: tuple[str, ...]
    binds_numa: bool
    kv_flag: str
    kv_words: Mapping[str, str]
    drafted: Callable[[Mapping[str, object]], int]
    prefix_caching: Callable[[Mapping[str, object]], bool]
    refuses: Callable[[Shape], str]
    config: Callable[[Settings], dict[str, Value]]
    argv: Callable[[Settings], tuple[str, ...]]
    environment: Callable[[Settings], dict[str, str]]
    refuses_by_503: bool = False


def whole(stated: object) -> int:
    """A number that a flag says, 1 by default; a value that is none is refused as the flag's."""
    return int(str(stated)) if is_digits(str(stated)) else 1


def prefixes_kept(flags: Mapping[str, object]) -> bool:
    """Of an engine whose switch is not read: with kept prefixes a sequence takes more memory."""
    del flags
    return True


def any_shape(shape: Shape) -> str:
    """Of an engine that takes every shape that the planner makes."""
    del shape
    return ""


# What the kit reads off a running engine, whichever it is.
METRICS = (
    "running",
    "waiting",
    "kv_usage",
    "generation_tokens",
    "prompt_tokens",
    "ttft",
    "inter_token_latency",
    "e2e_latency",
    "queue_time",
    "preemptions",
)


# The gateway keeps a client's connection, and with it the replica's, idle for 60 s
# (haproxy.cfg.j2). The servers' own 5 s would close it at the moment at which the next request is
# sent on it, and what may have been processed is not repeated.
IDLE_CONNECTION_S = 75


def offline(settings: Settings) -> dict[str, str]:
    """What keeps every engine off the model hub and its files in places of its own."""
    return {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HOME": settings.cache,
        "TMPDIR": settings.runtime,
    }


def wires(group: EngineGroup | None) -> dict[str, str]:
    """Which interface NCCL and gloo meet on: the group's between nodes, loopback within one.

    Named, because NCCL takes loopback last (ncclFindInterfaces in src/misc/socket.cc) and gloo the
    address of the host's name; a unit may reach neither, and every worker would wait for ever.
    """
    interface = group.interface if group else "lo"
    return {"NCCL_SOCKET_IFNAME": interface, "GLOO_SOCKET_IFNAME": interface}
