"""Rules between the keys of an inventory: combinations that cannot work. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from b200kit import engines
from b200kit.catalog.hardware.facts import Hardware
from b200kit.catalog.types import Catalogue
from b200kit.engines import kv_cache
from b200kit.engines.flags import EngineKnowledge
from b200kit.inventory import defaults, engine_flags, engine_rules, firewall, group, settings
from b200kit.inventory.keys import (
    events,
    fleet,
    gateway,
    monitoring,
    proof,
    rails,
    reprovision,
    weights,
)
from b200kit.inventory.keys.driver_version import branch, version_tuple
from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.keys.problem import Problem, did_you_mean
from b200kit.inventory.spec import NodeSpec
from b200kit.node.checks.judge import registered
from b200kit.node.host.settings_table import Setting
from b200kit.node.lib.readings import is_digits
from b200kit.node.placement.layout import Shape

_GPU = re.compile(r"(?:gpu[\s_#-]*)?([0-9]{1,4})", re.IGNORECASE)
"""A GPU as people write it; findings have "GPU 5"."""


def problems(spec: NodeSpec, catalogue: Catalogue) -> Iterator[Problem]:
    """Every rule between the keys that a spec with resolved defaults breaks."""
    yield from _unknown_names(spec, catalogue)
    hardware = catalogue.hardware.get(spec.hardware)
    if hardware:
        yield from _beyond_hardware(spec, hardware)
        yield from _beyond_power(spec, hardware, catalogue.settings)
    yield from defaults.problems(spec, catalogue)
    yield from _port_clashes(spec)
    yield from _strange_replicas(spec)
    yield from _blind_watchdog(spec)
    yield from _idle_waivers(spec, hardware)
    yield from proof.problems(spec.proof, spec.watchdog.longest_health_check_s)
    yield from _too_long_to_measure(spec)
    yield from _unlike_driver(spec)
    yield from _unlike_engine(spec, catalogue)
    yield from group.problems(spec, catalogue)
    yield from _engine_from(spec)
    if spec.firewall:
        yield from firewall.problems(spec.firewall, spec.gateway_bind, spec.gateway_port)
    yield from weights.problems(spec.weights)
    if spec.hf_token:
        yield from weights.token_problems(spec.model_store, spec.model_store_tls)
    yield from settings.problems(spec.settings, catalogue.settings)
    yield from gateway.problems(spec.gateway, spec.gateway_bind, spec.replicas, bool(spec.api_key))
    if spec.monitoring:
        yield from monitoring.problems(spec.monitoring, spec.firewall, spec.gateway_bind)
    yield from rails.problems(spec.rails)
    yield from gateway.floor_problems(spec.min_available, spec.replicas)
    yield from reprovision.problems(spec)
    if spec.events:
        yield from events.problems(spec.events)
    if spec.fleet:
        key_in_plain = bool(spec.api_key) and spec.gateway.tls != "off"
        yield from fleet.problems(spec.fleet, key_in_plain)
    for name, ref in secret_references(spec):
        if sum(bool(way) for way in (ref.env, ref.file, ref.command)) != 1:
            yield Problem(name, "give exactly one of env, file or command")


def secret_references(spec: NodeSpec) -> Iterator[tuple[str, SecretRef]]:
    """Every secret the inventory names, by its key."""
    for name in ("api_key", "hf_token"):
        ref = getattr(spec, name)
        if ref is not None:
            yield name, ref
    yield from gateway.references(spec.gateway)
    yield from reprovision.references(spec)


def _unknown_names(spec: NodeSpec, catalogue: Catalogue) -> Iterator[Problem]:
    if spec.hardware not in catalogue.hardware:
        yield Problem("hardware", f'unknown "{spec.hardware}"; known: {_names(catalogue.hardware)}')
    if spec.model not in catalogue.models:
        yield Problem("model", f'unknown "{spec.model}"{_which(spec.model, catalogue)}')
    if spec.system is not None and spec.system not in catalogue.systems:
        yield Problem("system", f'unknown "{spec.system}"; known: {_names(catalogue.systems)}')
    elif spec.system and (why := catalogue.systems[spec.system].refused):
        yield Problem("system", f"{spec.system}: {why}")


def _beyond_hardware(spec: NodeSpec, hardware: Hardware) -> Iterator[Problem]:
    if version_tuple(spec.driver) < version_tuple(hardware.minimum_driver):
        yield Problem(
            "driver",
            f"{spec.driver} is too old for {hardware.name}: {hardware.minimum_driver} or newer",
        )
    elif len(version_tuple(spec.driver)) < 3:
        yield Problem(
            "driver", f'"{spec.driver}" is a branch; give the exact version, such as "580.126.20"'
        )
    gpus = min(spec.gpus or hardware.gpu_count, hardware.gpu_count)
    each = spec.tensor_parallel * spec.data_parallel
    if spec.replicas * each > gpus:
        dp = f" with DP{spec.data_parallel}" if spec.data_parallel > 1 else ""
        yield Problem(
            "replicas",
            f"replicas={spec.replicas} of TP{spec.tensor_parallel}{dp} need "
            f"{spec.replicas * each} GPUs, but {hardware.name} has {gpus}: at most {gpus // each}",
        )


def _beyond_power(
    spec: NodeSpec, hardware: Hardware, known: Mapping[str, Setting]
) -> Iterator[Problem]:
    """A limit that is one, and not of these GPUs."""
    watts = dict(spec.settings).get("power_limit_w")
    if not (hardware.power_w and isinstance(watts, int) and known["power_limit_w"].allows(watts)):
        return
    lowest, highest = hardware.power_w
    if not lowest <= watts <= highest:
        message = f"{watts} W, but a GPU of {hardware.name} takes {lowest} to {highest} W"
        yield Problem("settings.power_limit_w", message)


# What driver branches from 590 on require of DCGM (from an install script for them).
_DCGM_FOR_590 = (4, 3)


def _unlike_driver(spec: NodeSpec) -> Iterator[Problem]:
    """Tools too old for the driver."""
    if not spec.dcgm or branch(spec.driver) < 590:
        return
    upstream = spec.dcgm.rpartition(":")[2].partition("-")[0]
    numbers = tuple(int(part) for part in upstream.split(".")[:2] if is_digits(part))
    if numbers < _DCGM_FOR_590:
        yield Problem("dcgm", f"{spec.dcgm} is too old for driver {spec.driver}: 4.3 or newer")


def _strange_replicas(spec: NodeSpec) -> Iterator[Problem]:
    """Flags for a replica that there is not."""
    known = [str(number) for number in range(spec.replicas)]
    for number, _ in spec.replica_flags:
        if number not in known:
            message = f'"{number}" is no replica; there are {", ".join(known)}'
            yield Problem("replica_flags", message)


def _blind_watchdog(spec: NodeSpec) -> Iterator[Problem]:
    """Rules by which no fault would ever count, or take a replica out."""
    rules = spec.watchdog
    if rules.confirm > rules.health_checks:
        message = (
            f"must not be more than health_checks ({rules.health_checks}): no fault would count"
        )
        yield Problem("watchdog.confirm", message)
    checks = registered()
    known = {*checks, *(name.partition(".")[0] for name in checks)}
    for name in rules.takes_out:
        if name not in known:
            message = f'"{name}" is no check, nor the first word of one{did_you_mean(name, known)}'
            yield Problem("watchdog.takes_out", message)


def _idle_waivers(spec: NodeSpec, hardware: Hardware | None) -> Iterator[Problem]:
    """Waivers of a check or a GPU that there is not: they would hold for nothing."""
    for number, waiver in enumerate(spec.waivers):
        if waiver.check not in registered():
            message = f'"{waiver.check}" is no check{did_you_mean(waiver.check, registered())}'
            yield Problem(f"waivers.{number}.check", message)
        if not (gpu := _GPU.fullmatch(subject := waiver.subject or "")):
            continue
        named = f"GPU {int(gpu[1])}"
        if hardware and int(gpu[1]) >= hardware.gpu_count:
            message = f'"{subject}", but {hardware.name} has GPU 0 to {hardware.gpu_count - 1}'
            yield Problem(f"waivers.{number}.subject", message)
        elif subject != named:
            message = f'"{subject}" is no subject; did you mean "{named}"?'
            yield Problem(f"waivers.{number}.subject", message)


def _too_long_to_measure(spec: NodeSpec) -> Iterator[Problem]:
    """A smoke test whose longest request no replica takes."""
    smoke = spec.smoke
    if smoke.input_tokens + smoke.output_tokens > spec.max_model_len:
        message = (
            f"{smoke.input_tokens} input and {smoke.output_tokens} output tokens are over"
            f" max_model_len {spec.max_model_len}"
        )
        yield Problem("smoke", message)


def _unlike_engine(spec: NodeSpec, catalogue: Catalogue) -> Iterator[Problem]:
    """Flags, variables and versions that the engine does not take, or should not be served with."""
    model = catalogue.models.get(spec.model)
    own = engine_flags.of_catalogue(spec, model, catalogue)
    known = catalogue.engines.get(spec.engine.name, EngineKnowledge())
    kind = engines.get(spec.engine)
    yield from engine_rules.problems(kind, spec.engine, known, own)
    yield from _unservable(spec, catalogue)
    for number, flags in spec.replica_flags:
        single = spec.engine.replace(flags=flags, environment=())
        for problem in engine_rules.problems(kind, single, known, {}):
            if problem.key.startswith("engine.flags."):
                key = problem.key.replace("engine.flags", f"replica_flags.{number}", 1)
                yield Problem(key, problem.message)


def _unservable(spec: NodeSpec, catalogue: Catalogue) -> Iterator[Problem]:
    """A model, a shape or a cache that this engine has no words for."""
    kind, model = engines.get(spec.engine), catalogue.models.get(spec.model)
    known = catalogue.engines.get(spec.engine.name, EngineKnowledge())
    if model and (why := known.refused.get(model.family)):
        yield Problem("engine.name", f"{kind.name} cannot serve {model.name}: {why}")
    wanted = engine_flags.kv_format(spec, model)
    if kind.kv_flag not in dict(spec.engine.flags) and (why := kv_cache.refusal(kind, wanted)):
        yield Problem("kv_cache_dtype", why)
    shape = Shape(tp=spec.tensor_parallel, dp=spec.data_parallel, ep=bool(spec.expert_parallel))
    if why := kind.refuses(shape):
        yield Problem("data_parallel", why)


def _engine_from(spec: NodeSpec) -> Iterator[Problem]:
    """Where the engine comes from: wheels, or an image."""
    engine = spec.engine
    wheels = [name for name in ("requirements", "wheelhouse") if getattr(engine, name)]
    if engine.image and wheels:
        yield Problem("engine.image", f"is given together with engine.{wheels[0]}: take one")
    if engine.image and "podman" not in spec.container_runtimes:
        yield Problem("container_runtimes", "has no podman, which runs engine.image")
    if not engine.image:
        needed = ["requirements"] if spec.source else ["requirements", "wheelhouse"]
        for name in needed:
            if not getattr(engine, name):
                yield Problem(f"engine.{name}", "is required, or engine.image")


def _port_clashes(spec: NodeSpec) -> Iterator[Problem]:
    ports = spec.ports()
    if max(ports) > 65535:
        message = f"{spec.gateway_port}: replica {spec.replicas - 1} has no port left"
        yield Problem("gateway_port", message)
    if len(ports) != spec.replicas:
        yield Problem("replica_ports", f"{len(ports)} ports for {spec.replicas} replicas")
    taken: dict[int, str] = {}
    for key, whose, port in _listening(spec):
        if other := taken.get(port):
            yield Problem(key, f"port {port} is also {other}'s")
        taken.setdefault(port, whose)


def _listening(spec: NodeSpec) -> Iterator[tuple[str, str, int]]:
    """Each port that a part of the node listens on: the key that says it, whose it is."""
    yield "gateway_port", "the gateway", spec.gateway_port
    key = "replica_ports" if spec.replica_ports else "gateway_port"
    yield from ((key, f"replica {number}", port) for number, port in enumerate(spec.ports()))
    if spec.fleet:
        yield "fleet.port", "the fleet's endpoint", spec.fleet.port
    if server := spec.weights.server:
        yield "weights.server.port", "the weights server", server.port
    if router := spec.gateway.router:
        yield "gateway.router.port", "the router", router.port
        yield "gateway.router.port", "the router", router.port + 1
    if spec.proof.asked_at:
        yield "proof.share_port", "the proof", spec.proof.asked_at
    if of := spec.monitoring:
        yield "monitoring.port", "the metrics", of.port
        if of.node_exporter:
            yield "monitoring.node_exporter", "node_exporter", of.node_exporter
    if group := spec.group:
        yield "group.port", "the group", group.port
        if group.join == "data":
            yield "group.rpc_port", "the group", group.rpc_port


def beside_sshd(spec: NodeSpec, ssh_port: int) -> Iterator[Problem]:
    """Ports that the node's sshd has: what is to listen there does not start."""
    for key in dict.fromkeys(key for key, _, port in _listening(spec) if port == ssh_port):
        yield Problem(key, f"port {ssh_port} is sshd's on the node (ssh_port): take another")


def _which(name: str, catalogue: Catalogue) -> str:
    """The known model that is nearest, else where all of them are: they are too many for a line."""
    return did_you_mean(name, catalogue.models) or "; `b200 models` lists those known"


def _names(known: Mapping[str, Any]) -> str:
    return ", ".join(sorted(known)) or "none"
