"""What this node serves: /etc/b200kit/serving.json as typed values, and the API key.

The file is written by the controller; the key comes from systemd's credentials directory when
the program runs inside the unit, else from the file that the configuration names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from b200kit.node.client.chat import Endpoint
from b200kit.node.client.dataset import dataset
from b200kit.node.client.dataset.dataset import Dataset
from b200kit.node.client.formulas import Objective
from b200kit.node.client.golden import reference
from b200kit.node.client.golden.prompts import TOLERANCE
from b200kit.node.client.golden.reference import Reference
from b200kit.node.state import mend, watch
from b200kit.node.state.watchdog import Rules

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


class ConfigError(Exception):
    """The configuration cannot be used; the text says which file and key, on one line."""


@dataclass(frozen=True)
class WarmPlan:
    """How long and how exactly to warm up. tolerance: share by which two rounds may differ.

    features: what the server has besides completions (b200kit/node/state/warmup_features.py);
    system_prompts: files with the texts that production requests begin with.
    """

    timeout_s: float = 600.0
    tolerance: float = 0.1
    max_rounds: int = 12
    features: tuple[str, ...] = ()
    system_prompts: tuple[str, ...] = ()


@dataclass(frozen=True)
class WatchdogPlan:
    """When a replica hangs and a fault of the node counts, whose faults take replicas out (checks,
    or first words of their ids), what is mended, and by which counters an engine shows progress.
    """

    rules: Rules = field(default_factory=Rules)
    look_rules: watch.Rules = field(default_factory=watch.Rules)
    takes_out: tuple[str, ...] = ()
    mend_rules: mend.Rules = field(default_factory=mend.Rules)
    waiting: str = "vllm:num_requests_waiting"
    gaps: str = "vllm:inter_token_latency_seconds"
    progress: tuple[str, ...] = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")


@dataclass(frozen=True)
class RollingRestartPlan:
    """A rolling restart: replicas that must stay available, seconds for open requests to end.

    in_flight: the engine's series that add up to the requests it has.
    """

    min_available: int = 0
    drain_s: float = 600.0
    in_flight: tuple[str, ...] = ("vllm:num_requests_running", "vllm:num_requests_waiting")


@dataclass(frozen=True)
class SmokePlan:
    """The smoke run: `requests` at `rate` a second through the gateway, then direct ones.

    Both up to four times. direct_requests: to each replica. replica_slowdown, stall_ms: `LowLoad`.
    golden_tokens: asked for a golden prompt, 0 for none; golden_tolerance: golden/prompts.py.
    """

    requests: int = 60
    rate: float = 6.0
    input_tokens: int = 128
    output_tokens: int = 64
    direct_requests: int = 24
    replica_slowdown: float | None = 0.1
    stall_ms: float = 1000.0
    golden_tokens: int = 32
    golden_tolerance: float = TOLERANCE
    gateway_limit_ms: float = 50.0
    loop_lag_ms: float = 10.0
    cpu_wait_limit_factor: float = 1.0
    objective: Objective = field(default_factory=lambda: Objective(ttft_ms=100.0, tpot_ms=100.0))
    dataset: Dataset = field(default_factory=Dataset)

    @property
    def longest(self) -> int:
        """Tokens of the longest request with its answer: the last turn has all before it."""
        return self.dataset.turns * (self.input_tokens + self.output_tokens)


@dataclass(frozen=True)
class Replica:
    """One serving process."""

    index: int
    url: str
    unit: str
    uuids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Serving:
    """All of serving.json that the latency commands use."""

    model: str
    engine: str
    stand_in: bool
    gateway: str
    api_key: str | None
    replicas: tuple[Replica, ...]
    max_num_seqs: int
    max_model_len: int
    max_num_batched_tokens: int
    client_cpus: str | None
    warm: WarmPlan
    smoke: SmokePlan
    watchdog: WatchdogPlan = field(default_factory=WatchdogPlan)
    rolling_restart: RollingRestartPlan = field(default_factory=RollingRestartPlan)
    # The gateway's own certificate, where it has one.
    trust: str | None = None
    # Names the configuration that a reference of golden answers must be of.
    golden_for: str = ""

    def reference(self) -> Reference | None:
        """What this node's replicas should answer; None where nothing is known for it."""
        return reference.of_node(self.golden_for, self.smoke.golden_tokens)

    def replica(self, index: int) -> Replica:
        """The replica of this index. Raises ConfigError when there is none."""
        for replica in self.replicas:
            if replica.index == index:
                return replica
        raise ConfigError(f"serving configuration has no replica {index}")

    def endpoint(self, url: str) -> Endpoint:
        """An endpoint with this node's key."""
        return Endpoint(url, self.api_key, self.trust if url.startswith("https:") else None)


def load(path: Path) -> Serving:
    """Read the configuration. Raises ConfigError with one line that names file and key."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error
    try:
        return _serving(document)
    except KeyError as error:
        raise ConfigError(f"{path}: key {error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _serving(document: Mapping[str, object]) -> Serving:
    group = _section(document, "group")
    # A replica that works for another node answers nobody.
    replicas = [] if group.get("headless") is True else _list(document, "replicas")
    return Serving(
        model=str(document["model"]),
        engine=str(document["engine"]),
        stand_in=document.get("stand_in") is True,
        gateway=str(document["gateway"]),
        api_key=_api_key(document.get("api_key_file")),
        replicas=tuple(
            Replica(_int(r, "index"), str(r["url"]), str(r["unit"]), _words(r, "uuids"))
            for r in replicas
        ),
        max_num_seqs=_int(document, "max_num_seqs"),
        max_model_len=_int(document, "max_model_len"),
        max_num_batched_tokens=_int(document, "max_num_batched_tokens"),
        client_cpus=str(document["client_cpus"]) if document.get("client_cpus") else None,
        warm=_filled(WarmPlan, _section(document, "warm")),
        smoke=_smoke(_section(document, "smoke")),
        watchdog=_watchdog(_section(document, "watchdog")),
        rolling_restart=_filled(RollingRestartPlan, _section(document, "rolling_restart")),
        trust=str(document["gateway_trust"]) if document.get("gateway_trust") else None,
        golden_for=str(document.get("golden_for") or ""),
    )


def _filled(kind: Callable[..., T], section: Mapping[str, object], **given: object) -> T:
    """A plan by its section, key by field: a key that is not there keeps the field's default."""
    default = kind()
    for one in fields(default):
        value = getattr(default, one.name)
        if one.name in given:
            continue
        if isinstance(value, int):
            given[one.name] = _int(section, one.name, value)
        elif isinstance(value, float):
            given[one.name] = _number(section, one.name, value)
        elif isinstance(value, tuple):
            given[one.name] = _words(section, one.name) or value
        else:
            given[one.name] = str(section.get(one.name) or value)
    return kind(**given)


def _watchdog(section: Mapping[str, object]) -> WatchdogPlan:
    rules = _filled(Rules, section)
    least = replace(rules, strikes=max(1, rules.strikes), ejections=max(1, rules.ejections))
    looks, mends = _filled(watch.Rules, section), _filled(mend.Rules, section)
    return _filled(WatchdogPlan, section, rules=least, look_rules=looks, mend_rules=mends)


def _words(section: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = section.get(key, [])
    if not isinstance(value, list):
        raise TypeError(f"{key} must be a list")
    return tuple(str(word) for word in value)


def _smoke(section: Mapping[str, object]) -> SmokePlan:
    goodput = _section(section, "goodput") or {"ttft_ms": 100.0, "tpot_ms": 100.0}
    unknown = set(goodput) - {"ttft_ms", "tpot_ms", "e2el_ms", "share"}
    if unknown:
        raise ValueError(f"smoke.goodput: unknown key {sorted(unknown)[0]!r}")
    objective = Objective(**{key: _number(goodput, key) for key in goodput})
    slowdown = section.get("replica_slowdown", SmokePlan.replica_slowdown)
    wanted = (
        None if slowdown is None else _number({"replica_slowdown": slowdown}, "replica_slowdown")
    )
    return _filled(
        SmokePlan,
        section,
        objective=objective,
        replica_slowdown=wanted,
        dataset=_dataset(_section(section, "dataset")),
    )


def _dataset(section: Mapping[str, object]) -> Dataset:
    name, share = str(section.get("prompts", "words")), section.get("prefix_share", 0)
    if isinstance(share, bool) or not isinstance(share, int | float):
        raise TypeError("smoke.dataset.prefix_share must be a number")
    group, turns = _int(section, "prefix_requests", 8), _int(section, "turns", 1)
    try:
        return Dataset(dataset.source(name), float(share), group, turns)
    except OSError as error:
        raise ValueError(f"smoke.dataset.prompts {name}: {error.strerror}") from error


def _api_key(key_file: object) -> str | None:
    """The key's text: from the unit's credentials, else the file; None when none is configured."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    credential = Path(directory, "api_key") if directory else None
    if credential and credential.exists():
        return credential.read_text().strip()
    if not key_file:
        return None
    try:
        return Path(str(key_file)).read_text().strip()
    except OSError as error:
        raise ValueError(f"api_key_file {key_file}: {error.strerror}") from error


def _section(document: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise TypeError(f"{key} must be an object")
    return value


def _list(document: Mapping[str, object], key: str) -> list[dict[str, object]]:
    value = document[key]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise TypeError(f"{key} must be a list of objects")
    return value


def _number(section: Mapping[str, object], key: str, default: float | None = None) -> float:
    value = section[key] if default is None else section.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ValueError(f"{key} must be a number above 0, not {value!r}")
    return float(value)


def _int(section: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = section[key] if default is None else section.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{key} must be a whole number, not {value!r}")
    return value
