"""The desired state of one node: the inventory's keys, typed and documented.

`parse` takes a node's merged inventory data and a `Catalogue` and returns a `NodeSpec` or every
problem. Pure: nothing here reads a file or a secret: a secret is only ever a reference to where the
controller finds it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from b200kit.engines import kv_cache
from b200kit.inventory.keys.acceptance import AcceptanceFloor
from b200kit.inventory.keys.events import Events
from b200kit.inventory.keys.fleet import Fleet
from b200kit.inventory.keys.gateway import Gateway
from b200kit.inventory.keys.group import Group
from b200kit.inventory.keys.kept import Kept
from b200kit.inventory.keys.monitoring import Monitoring
from b200kit.inventory.keys.parts import (
    Engine,
    Firewall,
    Repository,
    SecretRef,
    Smoke,
    Storage,
    Waiver,
    Watchdog,
)
from b200kit.inventory.keys.proof import Proof
from b200kit.inventory.keys.rails import Rail
from b200kit.inventory.keys.reprovision import ReprovisioningKeys
from b200kit.inventory.keys.rollout import RolloutKeys
from b200kit.inventory.keys.source import Source
from b200kit.inventory.keys.tuning import Tune
from b200kit.inventory.keys.types import (
    UNRESOLVED,
    Address,
    CpuList,
    HostName,
    Listed,
    Port,
    Resolved,
    Scalar,
    Table,
    Text,
    Unique,
    UrlOrEmpty,
    matching,
    one_of,
)
from b200kit.inventory.keys.weights import Weights
from b200kit.node.state.acceptance import Level
from b200kit.node.state.warmup_features import FEATURES

_PackageVersion = Annotated[
    str, matching(r"[0-9][A-Za-z0-9_.:+~-]*", 'a package version such as "4.4.1-1"')
]
_CudaRelease = Annotated[str, matching(r"[0-9]+-[0-9]+", 'a CUDA release such as "12-8"')]
_CPU_LIST = r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*"


class NodeSpec(ReprovisioningKeys, RolloutKeys):
    """Everything the inventory says about one node."""

    driver: Annotated[
        str, matching(r"[0-9]+(\.[0-9]+)*", 'an exact driver version such as "580.126.20"')
    ]
    """exact driver version; fabric manager, NSCQ and NVSDM follow it"""
    system: Text | None = None
    """operating system the node must run, see b200kit/catalog/systems/; required with a source"""
    source: Source | None = None
    """where everything comes from: "internet" (the vendors' repositories, pip's own index, the
    Hub), or a mirror of the site; None: repositories, engine.wheelhouse and model_store say it"""
    repositories: Resolved[Unique[Repository]] = UNRESOLVED
    """signed apt repositories, vendor and operating system; with "internet" presets of the system
    unless given, with a mirror what it is made from"""
    engine: Engine
    """the serving engine"""
    model: Text
    """model of the catalogue, see b200kit/catalog/models/"""
    model_store: UrlOrEmpty = ""
    """URL under which NAME/REVISION/manifest.json is found; required without a source"""
    model_store_tls: Literal["required", "off"] = "required"
    """required: hf_token goes to an https:// model_store only; off: also in plain text, on
    purpose"""
    model_revision: Annotated[str, matching(r"[0-9a-f]{64}", "64 hexadecimal digits")]
    """SHA-256 of the manifest"""
    model_manifest: Text | None = None
    """manifest of the model, a path on the controller, with source "internet" alone;
    models/NAME-REVISION.json beside the inventory when None, 12 digits of the revision"""
    # Figures that may be None in an inventory are resolved by inventory/defaults.py.
    goal: Literal["latency", "balanced", "throughput"] | None = None
    """what the planner decides the next keys by, where they are None (docs/layout.md)"""
    replicas: Resolved[int] = Field(UNRESOLVED, ge=1, le=64)
    """serving instances; required without a goal"""
    tensor_parallel: Resolved[int] = Field(UNRESOLVED, ge=1, le=16)
    """GPUs that share one copy of the model; required without a goal"""
    data_parallel: Resolved[int] = Field(UNRESOLVED, ge=1, le=16)
    """copies of the attention in one replica of a mixture of experts; 1 without a goal"""
    expert_parallel: Resolved[bool] = UNRESOLVED
    """spread whole experts over a replica's GPUs; False without a goal"""
    model_config_file: Text | None = None
    """config.json of a model that is not in the catalogue, a path on the controller"""
    gpus: int | None = Field(None, ge=1, le=16)
    """GPUs of a degraded node, fewer than the hardware has; needs waivers (docs/layout.md)"""
    replica_cpus: Listed[Annotated[str, matching(_CPU_LIST, 'a CPU list such as "4-7"')]] = ()
    """CPUs of each replica, instead of those the layout picks"""
    hardware: Text = "hgx-b200"
    """expectations to judge by, see b200kit/catalog/hardware/"""
    container_toolkit: Text = "1.20.0-1"
    """exact package version of nvidia-container-toolkit"""
    container_runtimes: Unique[Literal["docker", "containerd", "podman"]] = ()
    """runtimes whose containers get GPUs by CDI: docker, containerd, podman"""
    nvlsm: Text | None = None
    """exact package version of nvlsm; newest when None"""
    cuda_toolkit: _CudaRelease | None = None
    """CUDA toolkit to install; engines bring their own"""
    nccl: _PackageVersion | None = None
    """exact package version of libnccl2, such as "2.27.7-1+cuda12.9"; None: not installed"""
    dcgm: _PackageVersion | None = None
    """exact version of DCGM, such as "4.4.1"; None: not installed"""
    gateway_bind: Address = "127.0.0.1"
    """address the gateway listens on"""
    gateway_port: Port = 8000
    """port of the one endpoint"""
    gateway: Gateway = Gateway()
    """clients, encryption and routing of the endpoint"""
    fleet: Fleet | None = None
    """an endpoint before the gateways of all nodes"""
    fleet_address: Text | None = None
    """where the fleet reaches the node; as SSH when None"""
    fleet_weight: int = Field(100, ge=0, le=256)
    """the node's share of the fleet's load"""
    min_available: int | None = Field(None, ge=0, le=63)
    """replicas that stay in rotation while one is restarted; all but one when None"""
    group: Group | None = None
    """several nodes that serve as one; None: this node serves by itself"""
    replica_ports: Unique[Port] = ()
    """loopback ports; gateway_port + 1 and up when empty"""
    max_model_len: Resolved[int] = Field(UNRESOLVED, ge=128, le=10_000_000)
    """longest prompt plus output, tokens; by the model when None: 4096, more where it thinks"""
    kv_cache_dtype: Annotated[str, one_of(*kv_cache.FORMATS)] | None = None
    """number format of the KV cache, rendered as each engine's own flag; the model's when None"""
    max_num_seqs: Resolved[int] = Field(UNRESOLVED, ge=1, le=4096)
    """sequences a replica (each DP rank of it) decodes at once; the goal's when None, else 8"""
    max_num_batched_tokens: Resolved[int] = Field(UNRESOLVED, ge=64, le=1_000_000)
    """tokens a scheduler step; the goal's when None, else 2048"""
    numa_policy: Literal["bind", "local"] = "bind"
    """memory policy of a replica; local is for machines whose kernel has no second node"""
    api_key: SecretRef | None = None
    """key clients must present"""
    hf_token: SecretRef | None = None
    """token for the model store"""
    client_cpus: CpuList | None = None
    """CPUs of the latency client; without: those that no replica has"""
    smoke: Smoke = Smoke()
    """load and objective of the smoke test"""
    cpu_wait_limit_factor: float = Field(1.0, ge=1, le=1000)
    """factor on the limits of CPU waiting (the client's and the gateway's) beyond which a smoke
    test is invalid; 1 on nodes, more only for simulated nodes, which share few CPUs with other work
    """
    kept: Kept = Kept()
    """how much of reports/ and evidence/ stays on the controller"""
    tune: Tune = Tune()
    """what deploy/tune.py tries"""
    accept_level: Level = "standard"
    """how much deploy/burnin.py runs: about 5 minutes, half an hour, hours, or days"""
    acceptance_floors: Table[AcceptanceFloor] = ()
    """limits of the site's own by metric, in place of the hardware's (docs/accept.md)"""
    acceptance_baseline: bool = False
    """run without limits, to make them of what is measured"""
    system_prompts: Listed[Text] = ()
    """files with the texts that requests begin with; they stay in the cache"""
    features_off: Unique[Annotated[str, one_of(*FEATURES)]] = ()
    """not served, and left out of the warm-up (docs/units.md)"""
    watchdog: Watchdog = Watchdog()
    """the watchdog over the replicas"""
    monitoring: Monitoring | None = None
    """metrics for a Prometheus; None: they are written on the node and offered to nobody"""
    events: Events | None = None
    """the command that receives events of the node while it serves; None: there is none"""
    proof: Proof = Proof()
    """what the node proves of itself while it serves, and for how long that holds"""
    smoke_always: bool = False
    """measure on every run, not only after a change"""
    waivers: Listed[Waiver] = ()
    """accepted findings"""
    clock_synchronized: bool = True
    """judge that the clock is synchronized"""
    settings: Table[Scalar | None] = ()
    """settings of the operating system other than by default (docs/reference/settings.md), by
    name; None: neither set nor judged"""
    passport: Literal["keep", "renew"] = "keep"
    """compare the node with how it was accepted, or accept it as it is now"""
    bandwidth: Literal["off", "when-installed", "required"] = "off"
    """measure bandwidth between the GPUs before the node serves"""
    reboot_deadline_s: int = Field(1800, ge=10, le=7200)
    """how long a reboot may take"""
    fabric_deadline_s: int = Field(180, ge=1, le=3600)
    """how long the bring-up of the NVLink fabric may take"""
    warm_deadline_s: Resolved[int] = Field(UNRESOLVED, ge=10, le=14_400)
    """how long a replica may take until warm, loading included; by the model's size when None, at
    least 1800"""
    warm_tolerance: float = Field(0.1, ge=0.01, le=1)
    """share by which two rounds of the warm-up may differ for a replica to count as warm"""
    stop_grace_s: int = Field(20, ge=1, le=3600)
    """how long open requests get to end when a replica, or the gateway, stops"""
    replica_flags: Table[Table[Scalar]] = ()
    """flags of single replicas above those of the engine, by number: {"2": {"seed": 7}}"""
    restart_drain_s: int = Field(600, ge=1, le=7200)
    """how long open requests may take to end before their replica is restarted"""
    stage_timeout_s: int = Field(1800, ge=5, le=7200)
    """how long one command of a stage may take"""
    console: Text = "its BMC"
    """where a person finds the node's console"""
    time_servers: Unique[HostName] = ()
    """time servers; those of the distribution when empty"""
    rails: Listed[Rail] = ()
    """ports of the network between nodes, for `b200 accept` of several nodes (docs/network.md)"""
    storage: Storage | None = None
    """a file system of its own for models; None: they lie in /srv/models, wherever that is"""
    weights: Weights = Weights()
    """where the model comes from, and who may have it"""
    weights_verify: Literal["record", "hash"] = "record"
    """judge the model by sizes and times since its proof, or read and hash every byte again"""
    firewall: Firewall | None = None
    """deny what comes in but for these exceptions; None: the firewall is another's business"""

    def models(self) -> str:
        """The directory that models lie in."""
        return self.storage.mount if self.storage else "/srv/models"

    def ports(self) -> tuple[int, ...]:
        """Port of each replica, in replica order."""
        first = self.gateway_port + 1
        return self.replica_ports or tuple(range(first, first + self.replicas))

    def kept_cpus(self) -> dict[str, str]:
        """CPUs that no replica may have, by the key that asks for them."""
        asked = {"client_cpus": self.client_cpus, "gateway.cpus": self.gateway.cpus}
        return {key: cpus for key, cpus in asked.items() if cpus}
