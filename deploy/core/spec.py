"""What one node is asked to be: the inventory's keys, typed, with the rules that tie them together.

`parse` takes a node's merged inventory data and a `Catalogue` and returns a `NodeSpec` or every
problem. Nothing here reads a file or a secret: a secret is only ever a reference to where the
controller finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deploy.core import fields, firewall, settings, storage
from deploy.core.fields import Problem, setting
from deploy.core.settings import Setting
from deploy.core.spec_parts import (
    PORT,
    URL,
    Engine,
    Firewall,
    Repository,
    SecretRef,
    Smoke,
    Storage,
    Waiver,
)

_PACKAGE_VERSION, _VERSION_SHAPE = r"\d[\w.:+~-]*", 'a package version such as "4.4.1-1"'
_EXACT_VERSION = fields.matching(r"\d+(\.\d+)*", 'an exact driver version such as "580.126.20"')


@dataclass(frozen=True)
class Model:
    """A model of the catalogue (deploy/models/NAME.yaml)."""

    name: str
    source: str
    flags: tuple[tuple[str, str | int | float | bool], ...] = ()


@dataclass(frozen=True)
class Hardware:
    """The two facts of deploy/hardware/NAME.yaml that decide whether an inventory is possible."""

    name: str
    gpu_count: int
    minimum_driver: str


@dataclass(frozen=True)
class Catalogue:
    """The hardware, models and settings this checkout knows, by name."""

    hardware: Mapping[str, Hardware]
    models: Mapping[str, Model]
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeSpec:
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
    replicas: int = setting(fields.integer(1, 64), "vLLM instances on the node")
    tensor_parallel: int = setting(fields.integer(1, 16), "GPUs a replica")
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
    replica_ports: tuple[int, ...] = setting(
        fields.sequence(PORT), "loopback ports; gateway_port + 1 and up when empty", ()
    )
    max_model_len: int = setting(
        fields.integer(128, 10_000_000), "longest prompt plus output, tokens", 4096
    )
    max_num_seqs: int = setting(fields.integer(1, 4096), "sequences a replica decodes at once", 8)
    max_num_batched_tokens: int = setting(
        fields.integer(64, 1_000_000), "tokens a scheduler step", 2048
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
        "CPUs of the latency client",
        None,
    )
    smoke: Smoke = setting(fields.nested(Smoke), "load and objective of the smoke test", Smoke())
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
    return list(_impossible(spec, catalogue)) or spec


def _impossible(spec: NodeSpec, catalogue: Catalogue) -> Iterator[Problem]:
    yield from _unknown_names(spec, catalogue)
    hardware = catalogue.hardware.get(spec.hardware)
    if hardware:
        yield from _beyond_hardware(spec, hardware)
    yield from _port_clashes(spec)
    yield from _unlike_driver(spec)
    if spec.firewall:
        yield from firewall.problems(spec.firewall, spec.gateway_bind, spec.gateway_port)
    if spec.storage:
        yield from storage.problems(spec.storage)
    yield from settings.problems(spec.settings, catalogue.settings)
    for name in ("api_key", "hf_token"):
        ref = getattr(spec, name)
        if ref and sum(bool(way) for way in (ref.env, ref.file, ref.command)) != 1:
            yield Problem(name, "give exactly one of env, file or command")


def _unknown_names(spec: NodeSpec, catalogue: Catalogue) -> Iterator[Problem]:
    if spec.hardware not in catalogue.hardware:
        yield Problem("hardware", f'unknown "{spec.hardware}"; known: {_names(catalogue.hardware)}')
    if spec.model not in catalogue.models:
        yield Problem("model", f'unknown "{spec.model}"; known: {_names(catalogue.models)}')


def _beyond_hardware(spec: NodeSpec, hardware: Hardware) -> Iterator[Problem]:
    if version_tuple(spec.driver) < version_tuple(hardware.minimum_driver):
        yield Problem(
            "driver",
            f"{spec.driver} does not support {hardware.name}; "
            f"it needs {hardware.minimum_driver} or newer",
        )
    elif len(version_tuple(spec.driver)) < 3:
        yield Problem(
            "driver", f'"{spec.driver}" is a branch; give the exact version, such as "580.126.20"'
        )
    needed = spec.replicas * spec.tensor_parallel
    if needed > hardware.gpu_count:
        most = hardware.gpu_count // spec.tensor_parallel
        yield Problem(
            "replicas",
            f"replicas={spec.replicas} of TP{spec.tensor_parallel} need {needed} GPUs, but "
            f"{hardware.name} has {hardware.gpu_count}: at most {most}",
        )


# What driver branches from 590 on ask of DCGM (from an install script for them).
_DCGM_FOR_590 = (4, 3)


def _unlike_driver(spec: NodeSpec) -> Iterator[Problem]:
    """Tools too old for the driver."""
    if not spec.dcgm or branch(spec.driver) < 590:
        return
    upstream = spec.dcgm.rpartition(":")[2].partition("-")[0]
    numbers = tuple(int(part) for part in upstream.split(".")[:2] if part.isdecimal())
    if numbers < _DCGM_FOR_590:
        yield Problem("dcgm", f"{spec.dcgm} is too old for driver {spec.driver}: 4.3 or newer")


def _port_clashes(spec: NodeSpec) -> Iterator[Problem]:
    ports = spec.ports()
    if len(ports) != spec.replicas:
        yield Problem("replica_ports", f"{len(ports)} ports for {spec.replicas} replicas")
    for port in sorted({p for p in ports if ports.count(p) > 1}):
        yield Problem("replica_ports", f"port {port} is given twice")
    if spec.gateway_port in ports:
        yield Problem("gateway_port", f"port {spec.gateway_port} is also a replica's")


def version_tuple(version: str) -> tuple[int, ...]:
    """Numbers of a dotted version, for comparison: "580.126.20" -> (580, 126, 20)."""
    return tuple(int(part) for part in version.split("."))


def branch(version: str) -> int:
    """Driver branch of a version: "580.126.20" -> 580."""
    return version_tuple(version)[0]


def _names(known: Mapping[str, Any]) -> str:
    return ", ".join(sorted(known)) or "none"
