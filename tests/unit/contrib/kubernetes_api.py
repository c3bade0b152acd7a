"""Kubernetes' published schema of what contrib/kubernetes.py reads and kubectl sends for it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

Json = dict[str, Any]
PATH = Path(__file__).parents[2] / "data" / "kubernetes-1.32.json"
NODE = "io.k8s.api.core.v1.Node"
POD = "io.k8s.api.core.v1.Pod"
PODS = "io.k8s.api.core.v1.PodList"
DAEMON_SET = "io.k8s.api.apps.v1.DaemonSet"
EVICTION = "io.k8s.api.policy.v1.Eviction"
STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
VERSIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions"
GROUPS = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList"
RESOURCES = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList"


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    definitions = json.loads(PATH.read_text(encoding="utf-8"))["$defs"]
    return jsonschema.Draft202012Validator(
        {"$ref": f"#/$defs/{kind}", "$defs": definitions},
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
    )


def problems(kind: str, document: object) -> list[str]:
    """What the schema says against a document; a field that it does not know is a problem."""
    return [f"{e.json_path}: {e.message[:200]}" for e in _validator(kind).iter_errors(document)]


def held(kind: str, document: Json) -> str:
    """The document as kubectl prints it; AssertionError where the API has no such document."""
    assert problems(kind, document) == []
    return json.dumps(document)
