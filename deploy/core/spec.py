"""What one node is asked to be: the inventory's keys, typed, with the rules that tie them together.

`parse` takes a node's merged inventory data and a `Catalogue` and returns a `NodeSpec` or every
problem. Nothing here reads a file or a secret: a secret is only ever a reference to where the
controller finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deploy.core import deployment, fields, spec_rules
from deploy.core.fields import Problem, setting
from deploy.core.fleet import Fleet
from deploy.core.gateway import Gateway
from deploy.core.groups import Group
from deploy.core.known import Catalogue as Catalogue
from deploy.core.known import Hardware as Hardware
from deploy.core.known import Model as Model
from deploy.core.spec_mended import Mended
from deploy.core.spec_parts import (
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
from deploy.core.spec_rules import secret_references as secret_references
from deploy.core.spec_tune import Tune
from deploy.core.spec_weights import Weights
from deploy.core.versions import branch as branch
from deploy.core.versions import version_tuple as version_tuple
from deploy.core.warming import FEATURES

_PACKAGE_VERSION, _VERSION_SHAPE = r"\d[\w.:+~-]*", 'a package version such as "4.4.1-1"'
_CPU_LIST = r"\d+(-\d+)?(,\d+(-\d+)?)*"
_EXACT_VERSION = fields.matching(r"\d+(\.\d+)*", 'an exact driver version such as "580.126.20"')


@dataclass(frozen=True)
class NodeSpec(Mended):
    """Everything the inventory says about one node."""

    driver: str = setting(
        _EXACT_VERSION, "exact driver version; fabric manager, NSCQ and NVSDM follow it"
    )
    repositories: tuple[Repository, ...] = setting(
        fields.sequence(fields.nested(Repository)),
        "signed apt repositories, vendor and operating system",
    )
    engine: Engine = setting(fields.nested(Engine), "the serving engine")
    model: str = setting(fields.text, "model of the catalogue, see deploy/models/")
    model_store: str = setting(URL, "URL under which NAME/REVISION/manifest.json is found")
    model_revision: str = setting(
        fields.matching(r"[0-9a-f]{12,64}", "12 to 64 hexadecimal digits"),
        "first digits of the manifest's SHA-256",
    )
    # Figures that may be None in an inventory are settled by `parse` (deploy/core/deployment.py).
    goal: str | None = setting(
        fields.optional(fields.one_of("latency", "balanced", "throughput")),
        "what the planner decides the next keys by, where they are None (docs/serving.md)",
        None,
    )
    replicas: int = setting(
        fields.optional(fields.integer(1, 64)), "serving instances; required without a goal", None
    )
    tensor_parallel: int = setting(
        fields.optional(fields.integer(1, 16)),
        "GPUs that share one copy of the model; required without a goal",
        None,
    )
    data_parallel: int = setting(
        fields.optional(fields.integer(1, 16)),
        "copies of the attention in one replica of a mixture of experts; 1 without a goal",
        None,
    )
    expert_parallel: bool = setting(
        fields.optional(fields.boolean),
        "spread whole experts over a replica's GPUs; False without a goal",
        None,
    )
    model_config: str | None = setting(
        fields.optional(fields.text),
        "config.json of a model that is not in the catalogue, a path on the controller",
        None,
    )
    gpus: int | None = setting(
        fields.optional(fields.integer(1, 16)),
        "GPUs of a degraded node, fewer than the hardware has; needs waivers (docs/serving.md)",
        None,
    )
    replica_cpus: tuple[str, ...] = setting(
        fields.sequence(fields.matching(_CPU_LIST, 'a CPU list such as "4-7"')),
        "CPUs of each replica, instead of those the layout picks",
        (),
    )
    hardware: str = setting(
        fields.text, "expectations to judge by, see deploy/hardware/", "hgx-b200"
    )
    container_toolkit: str = setting(
        fields.text, "exact package version of nvidia-container-toolkit", "1.20.0-1"
    )
    container_runtimes: tuple[str, ...] = setting(
        fields.sequence(fields.one_of("docker", "containerd", "podman")),
        "runtimes whose containers get GPUs by CDI: docker, containerd, podman",
        (),
    )
    nvlsm: str | None = setting(
        fields.optional(fields.text), "exact package version of nvlsm; newest when None", None
    )
    cuda_toolkit: str | None = setting(
        fields.optional(fields.matching(r"\d+-\d+", 'a CUDA release such as "12-8"')),
        "CUDA toolkit to install; engines bring their own",
        None,
    )
    nccl: str | None = setting(
        fields.optional(fields.matching(_PACKAGE_VERSION, _VERSION_SHAPE)),
        'exact package version of libnccl2, such as "2.27.7-1+cuda12.9"; None: not installed',
        None,
    )
    dcgm: str | None = setting(
        fields.optional(fields.matching(_PACKAGE_VERSION, _VERSION_SHAPE)),
        'exact version of DCGM, such as "4.4.1"; None: not installed',
        None,
    )
    gateway_bind: str = setting(
        fields.address,
        "address the gateway listens on",
        "127.0.0.1",
    )
    gateway_port: int = setting(PORT, "port of the one endpoint", 8000)
    gateway: Gateway = setting(
        fields.nested(Gateway), "who may ask at the endpoint, and how it is answered", Gateway()
    )
    fleet: Fleet | None = setting(
        fields.optional(fields.nested(Fleet)), "an endpoint before the gateways of all nodes", None
    )
    fleet_address: str | None = setting(
        fields.optional(fields.text), "where the fleet reaches the node; as SSH when None", None
    )
    fleet_weight: int = setting(fields.integer(0, 256), "the node's share of the fleet's load", 100)
    serving_floor: int | None = setting(
        fields.optional(fields.integer(0, 63)),
        "replicas that stay in rotation while one is restarted; all but one when None",
        None,
    )
    group: Group | None = setting(
        fields.optional(fields.nested(Group)),
        "several nodes that serve as one; None: this node serves by itself",
        None,
    )
    replica_ports: tuple[int, ...] = setting(
        fields.sequence(PORT), "loopback ports; gateway_port + 1 and up when empty", ()
    )
    max_model_len: int = setting(
        fields.integer(128, 10_000_000), "longest prompt plus output, tokens", 4096
    )
    max_num_seqs: int = setting(
        fields.optional(fields.integer(1, 4096)),
        "sequences a replica (each DP rank of it) decodes at once; the goal's when None, else 8",
        None,
    )
    max_num_batched_tokens: int = setting(
        fields.optional(fields.integer(64, 1_000_000)),
        "tokens a scheduler step; the goal's when None, else 2048",
        None,
    )
    numa_policy: str = setting(
        fields.one_of("bind", "local"),
        "memory policy of a replica; local is for machines whose kernel has no second node",
        "bind",
    )
    api_key: SecretRef | None = setting(
        fields.optional(fields.nested(SecretRef)), "key clients must present", None
    )
    hf_token: SecretRef | None = setting(
        fields.optional(fields.nested(SecretRef)), "token for the model store", None
    )
    client_cpus: str | None = setting(
        fields.optional(fields.matching(r"[\d,-]+", 'a CPU list such as "4-7"')),
        "CPUs of the latency client; without: those that no replica has",
        None,
    )
    smoke: Smoke = setting(fields.nested(Smoke), "load and objective of the smoke test", Smoke())
    noise: float = setting(
        fields.number(1, 1000),
        "factor on the limits beyond which waiting for a CPU spoils the smoke test's figures; more "
        "than 1 only for simulated nodes, which share their CPUs with other work",
        1.0,
    )
    records: str | None = setting(
        fields.optional(fields.text),
        "directory of the record of measured runs, on the controller; records/ of this checkout "
        "when None",
        None,
    )
    tune: Tune = setting(fields.nested(Tune), "what deploy/tune.py tries", Tune())
    system_prompts: tuple[str, ...] = setting(
        fields.sequence(fields.text), "files whose texts requests begin with: kept in the cache", ()
    )
    features_off: tuple[str, ...] = setting(
        fields.sequence(fields.one_of(*FEATURES)), f"not served, of {', '.join(FEATURES)}", ()
    )
    canary: Canary = setting(fields.nested(Canary), "the watchdog over the replicas", Canary())
    smoke_always: bool = setting(
        fields.boolean, "measure on every run, not only after a change", False
    )
    waivers: tuple[Waiver, ...] = setting(
        fields.sequence(fields.nested(Waiver)), "accepted findings", ()
    )
    clock_synchronized: bool = setting(fields.boolean, "judge that the clock is synchronized", True)
    settings: tuple[tuple[str, str | int | None], ...] = setting(
        fields.table(fields.optional(fields.scalar)),
        "settings of the operating system other than by default (docs/settings.md), by name; "
        "None: neither set nor judged",
        (),
    )
    passport: str = setting(
        fields.one_of("keep", "renew"),
        "compare the node with how it was accepted, or accept it as it is now",
        "keep",
    )
    bandwidth: str = setting(
        fields.one_of("off", "when-installed", "required"),
        "measure bandwidth between the GPUs before the node serves",
        "off",
    )
    reboot_deadline_s: int = setting(fields.integer(10, 7200), "how long a reboot may take", 1800)
    fabric_deadline_s: int = setting(
        fields.integer(1, 3600), "how long the bring-up of the NVLink fabric may take", 180
    )
    warm_deadline_s: int = setting(
        fields.integer(10, 7200), "how long a replica may take until warm", 1800
    )
    drain_s: int = setting(
        fields.integer(1, 3600), "how long open requests of a replica get to end at its stop", 20
    )
    replica_flags: tuple[tuple[str, tuple[tuple[str, str | int | float | bool], ...]], ...] = (
        setting(
            fields.table(fields.table(fields.scalar)),
            'flags of single replicas above those of the engine, by number: {"2": {"seed": 7}}',
            (),
        )
    )
    drain_deadline_s: int = setting(
        fields.integer(1, 7200),
        "how long open requests may take to end before their replica is restarted",
        600,
    )
    stage_timeout_s: int = setting(
        fields.integer(5, 7200), "how long one command of a stage may take", 1800
    )
    console: str = setting(fields.text, "where a person finds the node's console", "its BMC")
    time_servers: tuple[str, ...] = setting(
        fields.sequence(fields.matching(r"[A-Za-z0-9.:_-]+", "a host name or an address")),
        "time servers; those of the distribution when empty",
        (),
    )
    storage: Storage | None = setting(
        fields.optional(fields.nested(Storage)),
        "a file system of its own for models; None: they lie in /srv/models, wherever that is",
        None,
    )
    weights: Weights = setting(
        fields.nested(Weights), "where the model comes from, and who may have it", Weights()
    )
    weights_verify: str = setting(
        fields.one_of("record", "hash"),
        "judge the model by sizes and times since its proof, or read and hash every byte again",
        "record",
    )
    firewall: Firewall | None = setting(
        fields.optional(fields.nested(Firewall)),
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


def parse(data: Mapping[str, object], catalogue: Catalogue) -> NodeSpec | list[Problem]:
    """The node's spec, or every problem in *data* (all of them, so that one edit mends all)."""
    spec = fields.parse_mapping(NodeSpec, data)
    if isinstance(spec, list):
        return spec
    settled, problems = deployment.settle(spec, catalogue)
    return [*problems, *spec_rules.problems(settled, catalogue)] or settled
