"""From what was asked for and what nodes showed to an inventory's values, each with why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from b200kit import engines
from b200kit.catalog import load, systems
from b200kit.catalog.types import Model
from b200kit.engines import kv_cache
from b200kit.inventory import precision
from b200kit.run.login import Login, parsed
from b200kit.supply.models.manifest import pin_command

INTERNET = "internet"
MIRROR_KEY, CERTIFICATE = "keys/mirror.asc", "keys/endpoint.pem"
API_KEY, HF_TOKEN = "keys/api_key", "keys/hf_token"
"""Files beside the inventory."""


@dataclass(frozen=True)
class SiteValue:
    """A value of the inventory and why it is that."""

    value: Any
    why: str


@dataclass(frozen=True)
class SiteRequest:
    """What the user said, and what follows from files that are there."""

    model: str
    goal: str
    source: str
    endpoint: str | None = None
    # Of the mirror's key, where the source is one.
    fingerprint: str | None = None
    # SHA-256 of the manifest that lies beside the inventory.
    revision: str | None = None
    # Nodes fetch it from the Hub, which gives it to accounts that accepted its terms.
    gated: bool = False


@dataclass(frozen=True)
class PinnedHost:
    """The host keys of a machine, each "type base64", under its name in known_hosts, and why."""

    name: str
    keys: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class SeenNode:
    """A node that was looked at: how it is reached as ssh resolves what was typed, what it is.

    *pins*: of the jump hosts before it, and its own.
    """

    name: str
    typed: str
    login: Login
    pins: tuple[PinnedHost, ...]
    system: str
    hardware: str
    kernel: str
    gpus: str


def name_of(typed: str) -> str:
    """What a node is called: the host of what was typed. Raises ValueError."""
    return parsed(typed).host


def common(nodes: Sequence[SeenNode]) -> dict[str, SiteValue]:
    """Values that all nodes have alike, in the order of the inventory."""
    found: dict[str, SiteValue] = {}
    for key in ("system", "hardware"):
        if len({getattr(node, key) for node in nodes}) == 1:
            found[key] = SiteValue(getattr(nodes[0], key), f"observed on {_names(nodes)}")
    if "system" in found:
        found["driver"] = _driver(nodes[0].system)
    return found


def _driver(system: str) -> SiteValue:
    known = systems.load()[system].driver
    return SiteValue(known.value, known.why)


def own(node: SeenNode, shared: Mapping[str, SiteValue]) -> dict[str, SiteValue]:
    """Values that one node has of its own."""
    login, why = node.login, f"as ssh resolves {node.typed}"
    found = {"ssh_hostname": SiteValue(login.host, why)}
    if login.port != 22:
        found["ssh_port"] = SiteValue(login.port, why)
    for key in ("system", "hardware"):
        if key not in shared:
            found[key] = SiteValue(getattr(node, key), "observed; nodes differ")
    if "driver" not in shared:
        found["driver"] = _driver(node.system)
    return found


def served(
    asked: SiteRequest, model: Model | None, choices: Mapping[str, Any]
) -> dict[str, SiteValue]:
    """What is served, from where and how; the same on every node."""
    engine = {"kind": "cuda", "version": choices["engine"]["value"]}
    found = {
        "source": _source(asked),
        "engine": SiteValue(engine, choices["engine"]["why"]),
        "model": SiteValue(
            asked.model, "asked for" if model else "asked for; not in the catalogue"
        ),
        "model_revision": _revision(asked, model),
        "goal": SiteValue(asked.goal, "asked for: replicas and GPUs a replica follow (b200 plan)"),
        "max_model_len": _context(model, choices),
        "smoke": _chosen(choices["smoke"][asked.goal]),
        "api_key": SiteValue({"file": API_KEY}, "made by b200 init: clients must present it"),
    }
    if asked.gated:
        why = "the model is gated: a token of an account that accepted its terms on the Hub"
        found["hf_token"] = SiteValue({"file": HF_TOKEN}, why)
    if asked.endpoint:
        found["gateway_bind"] = SiteValue(asked.endpoint, "asked for")
        pem = {"certificate": {"file": CERTIFICATE}}
        found["gateway"] = SiteValue(pem, 'yours: chain and key in one PEM; or {"tls": "off"}')
    return found


def narrow(model: Model | None) -> str:
    """What vLLM serves in fewer bits than it was published in; empty where nothing is known so."""
    if model is None or model.dimensions is None:
        return ""
    flags = dict(model.flags)
    stated = kv_cache.stated(engines.KINDS["vllm"], flags)
    return ", ".join(dict.fromkeys(precision.of(model, stated, flags)))


def _context(model: Model | None, choices: Mapping[str, Any]) -> SiteValue:
    """A start for all models; more for one that thinks before it answers."""
    start = _chosen(choices["max_model_len"])
    wanted = load.load().contexts.get(model.family, 0) if model else 0
    return SiteValue(wanted, "prompt, thinking and answer in tokens") if wanted else start


def _source(asked: SiteRequest) -> SiteValue:
    if asked.fingerprint is None:
        return SiteValue(INTERNET, "asked for: the vendors' repositories, pip's own index, the Hub")
    mirror = {
        "mirror": asked.source,
        "key": MIRROR_KEY,
        "fingerprint": asked.fingerprint,
    }
    return SiteValue(mirror, "asked for; the fingerprint is that of the key beside the inventory")


def _revision(asked: SiteRequest, model: Model | None) -> SiteValue:
    if asked.revision:
        return SiteValue(asked.revision, "SHA-256 of the manifest in models/")
    make = pin_command(asked.model, model, "inventories/models")
    return SiteValue("0" * 64, f"not known yet: {make}, then b200 init again")


def _chosen(choice: Mapping[str, Any]) -> SiteValue:
    return SiteValue(choice["value"], choice["why"])


def _names(nodes: Sequence[SeenNode]) -> str:
    names = [node.name for node in nodes]
    return ", ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1} others"
