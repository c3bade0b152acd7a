"""The end of a run: each new measurement gets its manifest, goes into the record, is held against
it and diagnosed. What is found stands with the host for the report.

Nothing here may cost a run its report: what goes wrong is one line of the host it happened to.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from deploy import catalogue, record_store
from deploy.core import diagnosis, engines, history, run_manifest, run_sources
from deploy.core import record as records
from deploy.core.record import RecordError
from deploy.report.redact import redact, scrub_value
from deploy.run import Node
from deploy.stages import engine, replica

_RULES = Path(__file__).resolve().parent / "diagnoses.yaml"
_UNREADABLE = (OSError, RecordError)
_TOLD = ("config", "argv", "environment", "kv_dtype")
logger = logging.getLogger(__name__)


@cache
def rules() -> tuple[diagnosis.Rule, ...]:
    """The diagnoses this checkout knows."""
    return diagnosis.rules(yaml.safe_load(_RULES.read_text(encoding="utf-8")))


def take(nodes: Mapping[str, Node], run: dict[str, Any]) -> None:
    """Take in what a run measured: adds `record` and `diagnosis` to the hosts of its document."""
    for name, node in nodes.items():
        if node.smoke:
            host = run["hosts"][name]
            host["record"] = _guarded(node, str(run["run"]))
            host["diagnosis"] = diagnosis.diagnose(host, rules())


def _guarded(node: Node, run: str) -> dict[str, Any]:
    try:
        return _taken(node, run)
    except _UNREADABLE as error:
        why = str(error)
    except Exception as error:
        # A mistake of ours must not take the report with it; the debug log keeps the trace.
        logger.debug("record of %s", node.name, exc_info=True)
        why = f"internal error, {type(error).__name__}: {error}"
    node.say("record", f"this result is not in the record: {why}")
    return {"unmeasured": f"this result is not in the record: {why}"}


def _taken(node: Node, run: str) -> dict[str, Any]:
    """Append a result of this run, then hold the record's newest runs against the baseline."""
    folder = record_store.directory()
    # A result with an age was measured by an earlier run, which recorded it.
    if node.smoke_age_s is None:
        entry = records.run_entry(manifest(node), node.smoke or {}, run)
        record_store.append(folder, node.name, entry)
    known = record_store.read(folder, node.name)
    newest = history.latest(known, 1)
    by_tp = history.by_tensor_parallel(known.runs, newest[-1]) if newest else []
    notes = [*known.torn, *known.damage]
    return {**history.against(known), "by_tp": by_tp, "damage": notes}


def manifest(node: Node) -> dict[str, Any]:
    """The manifest of a node's result, without a secret."""
    # What the inventory asks for was laid out on the node as it was last seen.
    seen = replace(node, state=node.seen)
    sources = {
        "node": node.name,
        "asked": asked(seen),
        "state": node.seen,
        "smoke": node.smoke,
        "layout": [planned.to_json() for planned in node.replicas],
        "seen": run_sources.seen(node.seen, node.smoke),
    }
    secrets = [secret.reveal().decode("utf-8", "replace") for secret in node.secrets.values()]
    safe = scrub_value(redact(run_manifest.build(sources)), secrets)
    return safe if isinstance(safe, dict) else {}


def asked(node: Node) -> dict[str, Any]:
    """What the inventory and this checkout ask of a node; replica 0 stands for the others."""
    spec = node.spec
    known = {
        "model": spec.model,
        "model_revision": spec.model_revision,
        "quantization": _quantization(node),
        "engine_id": engine.engine_id(node),
        "libraries": _libraries(node),
        "gateway": {"bind": spec.gateway_bind, "port": spec.gateway_port},
    }
    return known | _told(node)


def _told(node: Node) -> dict[str, Any]:
    """What the engine is told: configuration, arguments, environment."""
    if not node.replicas:
        return {key: {"unmeasured": "there is no layout"} for key in _TOLD}
    told = replica.settings(node, node.replicas[0])
    kind = engines.of(node.spec.engine)
    config = dict(kind.config(told))
    types = [value for key, value in config.items() if key.replace("_", "-") == "kv-cache-dtype"]
    return {
        "config": config,
        "argv": list(kind.argv(told)),
        "environment": replica.environment(node, told),
        "kv_dtype": types[0] if types else "auto",
    }


def _quantization(node: Node) -> object:
    known = catalogue.model_of(node.spec).dimensions
    return known.weights if known else {"unmeasured": "nothing is known of the model's size"}


def _libraries(node: Node) -> dict[str, str]:
    """Library versions by the hash-locked file that the engine was installed from."""
    if node.spec.engine.image:
        return {"unmeasured": "the engine is an image; what is in it was not read"}
    return run_manifest.libraries(engine.requirements(node).decode("utf-8", "replace"))
