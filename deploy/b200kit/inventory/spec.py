"""What one node is asked to be: the inventory's keys, typed, with the rules that tie them together.

`parse` takes a node's merged inventory data and a `Catalogue` and returns a `NodeSpec` or every
problem. Pure: nothing here reads a file or a secret: a secret is only ever a reference to where the
controller finds it.
"""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.inventory.keys import parsers
from b200kit.inventory.keys.fleet import Fleet
from b200kit.inventory.keys.gateway import Gateway
from b200kit.inventory.keys.group import Group
from b200kit.inventory.keys.parsers import setting
from b200kit.inventory.keys.parts import (
    PORT,
    URL,
    Canary,
    Engine,
    Firewall,
    Repository,
    SecretRef,
    Smoke,
    Storage,
    Waiver,
)
from b200kit.inventory.keys.reprovision_mixin import Mended
from b200kit.inventory.keys.tuning import Tune
from b200kit.inventory.keys.weights import Weights
from b200kit.node.state.warmup_features import FEATURES

_PACKAGE_VERSION, _VERSION_SHAPE = r"\d[\w.:+~-]*", 'a package version such as "4.4.1-1"'
_CPU_LIST = r"\d+(-\d+)?(,\d+(-\d+)?)*"
_EXACT_VERSION = parsers.matching(r"\d+(\.\d+)*", 'an exact driver version such as "580.126.20"')


@dataclass(frozen=True)
class NodeSpec(Mended):
    """Everything the inventory says about one node."""

    driver: str = setting(
        _EXACT_VERSION, "exact driver version; fabric manager, NSCQ and NVSDM follow it"
    )
    repositories: tuple[Repository, ...] = setting(
        parsers.sequence(parsers.nested(Repository)),
        "signed apt repositories, vendor and operating system",
    )
    engine: Engine = setting(parsers.nested(Engine), "the serving engine")
    model: str = setting(parsers.text, "model of the catalogue, see b200kit/catalog/models/")
    model_store: str = setting(URL, "URL under which NAME/REVISION/manifest.json is found")
    model_revision: str = setting(
        parsers.matching(r"[0-9a-f]{12,64}", "12 to 64 hexadecimal digits"),
        "first digits of the manifest's SHA-256",
    )
    # Figures that may be None in an inventory are settled by `parse` (b200kit/inventory/settle.py).
    goal: str | None = setting(
        parsers.optional(parsers.one_of("latency", "balanced", "throughput")),
        "what the planner decides the next keys by, where they are None (docs/serve.md)",
        None,
    )
    replicas: int = setting(
        parsers.optional(parsers.integer(1, 64)), "serving instances; required without a goal", None
    )
    tensor_parallel: int = setting(
        parsers.optional(parsers.integer(1, 16)),
        "GPUs that share one copy of the model; required without a goal",
        None,
    )
    data_parallel: int = setting(
        parsers.optional(parsers.integer(1, 16)),
        "copies of the attention in one replica of a mixture of experts; 1 without a goal",
        None,
    )
    expert_parallel: bool = setting(
        parsers.optional(parsers.boolean),
        "spread whole experts over a replica's GPUs; False without a goal",
        None,
    )
    model_config: str | None = setting(
        parsers.optional(parsers.text),
        "config.json of a model that is not in the catalogue, a path on the controller",
        None,
    )
    gpus: int | None = setting(
        parsers.optional(parsers.integer(1, 16)),
        "GPUs of a degraded node, fewer than the hardware has; needs waivers (docs/serve.md)",
        None,
    )
    replica_cpus: tuple[str, ...] = setting(
        parsers.sequence(parsers.matching(_CPU_LIST, 'a CPU list such as "4-7"')),
        "CPUs of each replica, instead of those the layout picks",
        (),
    )
    hardware: str = setting(
        parsers.text, "expectations to judge by, see b200kit/catalog/hardware/", "hgx-b200"
    )
    container_toolkit: str = setting(
        parsers.text, "exact package version of nvidia-container-toolkit", "1.20.0-1"
    )
    container_runtimes: tuple[str, ...] = setting(
        parsers.sequence(parsers.one_of("docker", "containerd", "podman")),
        "runtimes whose containers get GPUs by CDI: docker, containerd, podman",
        (),
    )
    nvlsm: str | None = setting(
        parsers.optional(parsers.text), "exact package version of nvlsm; newest when None", None
    )
    cuda_toolkit: str | None = setting(
        parsers.optional(parsers.matching(r"\d+-\d+", 'a CUDA release such as "12-8"')),
        "CUDA toolkit to install; engines bring their own",
        None,
    )
    nccl: str | None = setting(
        parsers.optional(parsers.matching(_PACKAGE_VERSION, _VERSION_SHAPE)),
        'exact package version of libnccl2, such as "2.27.7-1+cuda12.9"; None: not installed',
        None,
    )
    dcgm: str | None = setting(
        parsers.optional(parsers.matching(_PACKAGE_VERSION, _VERSION_SHAPE)),
        'exact version of DCGM, such as "4.4.1"; None: not installed',
        None,
    )
    gateway_bind: str = setting(
        parsers.address,
        "address the gateway listens on",
        "127.0.0.1",
    )
    gateway_port: int = setting(PORT, "port of the one endpoint", 8000)
    gateway: Gateway = setting(
        parsers.nested(Gateway), "who may ask at the endpoint, and how it is answered", Gateway()
    )
    fleet: Fleet | None = setting(
        parsers.optional(parsers.nested(Fleet)),
        "an endpoint before the gateways of all nodes",
        None,
    )
    fleet_address: str | None = setting(
        parsers.optional(parsers.text), "where the fleet reaches the node; as SSH when None", None
    )
    fleet_weight: int = setting(
        parsers.integer(0, 256), "the node's share of the fleet's load", 100
    )
    serving_floor: int | None = setting(
        parsers.optional(parsers.integer(0, 63)),
        "replicas that stay in rotation while one is restarted; all but one when None",
        None,
    )
    group: Group | None = setting(
        parsers.optional(parsers.nested(Group)),
        "several nodes that serve as one; None: this node serves by itself",
        None,
    )
    replica_ports: tuple[int, ...] = setting(
        parsers.sequence(PORT), "loopback ports; gateway_port + 1 and up when empty", ()
    )
    max_model_len: int = setting(
        parsers.integer(128, 10_000_000), "longest prompt plus output, tokens", 4096
    )
    max_num_seqs: int = setting(
        parsers.optional(parsers.integer(1, 4096)),
        "sequences a replica (each DP rank of it) decodes at once; the goal's when None, else 8",
        None,
    )
    max_num_batched_tokens: int = setting(
        parsers.optional(parsers.integer(64, 1_000_000)),
        "tokens a scheduler step; the goal's when None, else 2048",
        None,
    )
    numa_policy: str = setting(
        parsers.one_of("bind", "local"),
        "memory policy of a replica; local is for machines whose kernel has no second node",
        "bind",
    )
    api_key: SecretRef | None = setting(
        parsers.optional(parsers.nested(SecretRef)), "key clients must present", None
    )
    hf_token: SecretRef | None = setting(
        parsers.optional(parsers.nested(SecretRef)), "token for the model store", None
    )
    client_cpus: str | None = setting(
        parsers.optional(parsers.matching(r"[\d,-]+", 'a CPU list such as "4-7"')),
        "CPUs of the latency client; without: those that no replica has",
        None,
    )
    smoke: Smoke = setting(parsers.nested(Smoke), "load and objective of the smoke test", Smoke())
    noise: float = setting(
        parsers.number(1, 1000),
        "factor on the limits beyond which waiting for a CPU spoils the smoke test's figures; more "
        "than 1 only for simulated nodes, which share their CPUs with other work",
        1.0,
    )
    records: str | None = setting(
        parsers.optional(parsers.text),
        "directory of the record of measured runs, on the controller; records/ of this checkout "
        "when None",
        None,
    )
    tune: Tune = setting(parsers.nested(Tune), "what deploy/tune.py tries", Tune())
    system_prompts: tuple[str, ...] = setting(
        parsers.sequence(parsers.text),
        "files whose texts requests begin with: kept in the cache",
        (),
    )
    features_off: tuple[str, ...] = setting(
        parsers.sequence(parsers.one_of(*FEATURES)), f"not served, of {', '.join(FEATURES)}", ()
    )
    canary: Canary = setting(parsers.nested(Canary), "the watchdog over the replicas", Canary())
    smoke_always: bool = setting(
        parsers.boolean, "measure on every run, not only after a change", False
    )
    waivers: tuple[Waiver, ...] = setting(
        parsers.sequence(parsers.nested(Waiver)), "accepted findings", ()
    )
    clock_synchronized: bool = setting(
        parsers.boolean, "judge that the clock is synchronized", True
    )
    settings: tuple[tuple[str, str | int | None], ...] = setting(
        parsers.table(parsers.optional(parsers.scalar)),
        "settings of the operating system other than by default (docs/reference/settings.md), by "
        "name; None: neither set nor judged",
        (),
    )
    passport: str = setting(
        parsers.one_of("keep", "renew"),
        "compare the node with how it was accepted, or accept it as it is now",
        "keep",
    )
    bandwidth: str = setting(
        parsers.one_of("off", "when-installed", "required"),
        "measure bandwidth between the GPUs before the node serves",
        "off",
    )
    reboot_deadline_s: int = setting(parsers.integer(10, 7200), "how long a reboot may take", 1800)
    fabric_deadline_s: int = setting(
        parsers.integer(1, 3600), "how long the bring-up of the NVLink fabric may take", 180
    )
    warm_deadline_s: int = setting(
        parsers.integer(10, 7200), "how long a replica may take until warm", 1800
    )
    drain_s: int = setting(
        parsers.integer(1, 3600), "how long open requests of a replica get to end at its stop", 20
    )
    replica_flags: tuple[tuple[str, tuple[tuple[str, str | int | float | bool], ...]], ...] = (
        setting(
            parsers.table(parsers.table(parsers.scalar)),
            'flags of single replicas above those of the engine, by number: {"2": {"seed": 7}}',
            (),
        )
    )
    drain_deadline_s: int = setting(
        parsers.integer(1, 7200),
        "how long open requests may take to end before their replica is restarted",
        600,
    )
    stage_timeout_s: int = setting(
        parsers.integer(5, 7200), "how long one command of a stage may take", 1800
    )
    console: str = setting(parsers.text, "where a person finds the node's console", "its BMC")
    time_servers: tuple[str, ...] = setting(
        parsers.sequence(parsers.matching(r"[A-Za-z0-9.:_-]+", "a host name or an address")),
        "time servers; those of the distribution when empty",
        (),
    )
    storage: Storage | None = setting(
        parsers.optional(parsers.nested(Storage)),
        "a file system of its own for models; None: they lie in /srv/models, wherever that is",
        None,
    )
    weights: Weights = setting(
        parsers.nested(Weights), "where the model comes from, and who may have it", Weights()
    )
    weights_verify: str = setting(
        parsers.one_of("record", "hash"),
        "judge the model by sizes and times since its proof, or read and hash every byte again",
        "record",
    )
    firewall: Firewall | None = setting(
        parsers.optional(parsers.nested(Firewall)),
        "deny what comes in but for these exceptions; None: the firewall is another's business",
        None,
    )

    def models(self) -> str:
        """The directory that models lie in."""
        return self.storage.mount if self.storage else "/srv/models"

    def ports(self) -> tuple[int, ...]:
        """Port of each replica, in replica order."""
        first = self.gateway_port + 1
        return self.replica_ports or tuple(range(first, first + self.replicas))
