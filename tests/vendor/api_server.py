"""A stand-in for Kubernetes' API server: one node and its pods, all of it held to the API's schema.

It answers what kubectl asks for `get`, `annotate`, `cordon`, `drain` and `uncordon`, and nothing
else. What it is asked, or answers, that the published schema does not have is kept in `problems`.
It is no API server: no admission, no watch, no budgets but the one it is given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from tests.unit.contrib import kubernetes_api as api
from tests.unit.contrib.kubernetes_api import Json

Answer = tuple[int, str, Json]
#: Kubernetes API reference 1.32, "PATCH": the kinds of patch; what kubectl may send of them.
_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")
#: The same, query parameters of "read", "list" and "patch".
_PARAMETERS = {
    "GET": {"fieldSelector", "limit", "timeout"},
    "PATCH": {"fieldManager", "fieldValidation"},
    "POST": set(),
}  # fmt: skip


class ApiServer:
    """The node n7 and its pods, each by its name; `kept` pods' budget allows no eviction."""

    def __init__(self, node: Json, pods: list[Json], kept: frozenset[str] = frozenset()) -> None:
        self.node, self.kept = node, kept
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}
        self.changes: list[tuple[str, Json]] = []
        self.problems: list[str] = []

    def handle(self, method: str, target: str, kind: str, body: Json) -> tuple[int, Json]:
        """The answer to a request; both are held to the schema."""
        url = urlsplit(target)
        if more := set(parse_qs(url.query)) - _PARAMETERS.get(method, set()):
            self.problems.append(f"{method} {target}: parameters {more}")
        status, schema, answer = self._answer(method, url.path, kind, body)
        self.problems += [f"answer to {target}: {each}" for each in api.problems(schema, answer)]
        return status, answer

    def _answer(self, method: str, path: str, kind: str, body: Json) -> Answer:
        match method, path.strip("/").split("/"):
            case "GET", _ if path in _DISCOVERY:
                schema, document = _DISCOVERY[path]
                return 200, schema, document
            case "GET", ["api", "v1", "nodes", "n7"]:
                return 200, api.NODE, self.node
            case "PATCH", ["api", "v1", "nodes", "n7"] if kind in _PATCHES:
                return self._patched(path, body)
            case "GET", ["api", "v1", "pods"]:
                return 200, api.PODS, _list(list(self.pods.values()))
            case "GET", ["api", "v1", "namespaces", "team", "pods", name] if name in self.pods:
                return 200, api.POD, self.pods[name]
            case "GET", ["apis", "apps", "v1", "namespaces", "team", "daemonsets", name]:
                return 200, api.DAEMON_SET, _daemon_set(name)
            case "POST", ["api", "v1", "namespaces", "team", "pods", name, "eviction"]:
                return self._evicted(path, name, body)
            case "GET", _:
                return 404, api.STATUS, _status(404, "NotFound")
        self.problems.append(f"{method} {path} of {kind} is asked of nobody here")
        return 405, api.STATUS, _status(405, "MethodNotAllowed")

    def _patched(self, path: str, body: Json) -> Answer:
        self.changes.append((path, body))
        self.node = _merged(self.node, body)
        return 200, api.NODE, self.node

    def _evicted(self, path: str, name: str, body: Json) -> Answer:
        self.problems += api.problems(api.EVICTION, body)
        self.changes.append((path, body))
        if name in self.kept:
            return 429, api.STATUS, _status(429, "TooManyRequests")
        self.pods.pop(name, None)
        return 201, api.STATUS, _status(201)


@contextmanager
def listening(server: ApiServer) -> Iterator[str]:
    """The server's URL, as long as it answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            """One request."""
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kind = self.headers.get("Content-Type", "")
            found = server.handle(self.command, self.path, kind, json.loads(body or "{}"))
            text = json.dumps(found[1]).encode()
            self.send_response(found[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PATCH = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.server_port}"
        listener.shutdown()


def _merged(old: Json, new: Json) -> Json:
    """RFC 7396; a strategic merge differs from it in lists alone, which no such patch has."""
    kept = {key: value for key, value in old.items() if not (key in new and new[key] is None)}
    for key, value in new.items():
        if isinstance(value, dict):
            kept[key] = _merged(kept.get(key) or {}, value)
        elif value is not None:
            kept[key] = value
    return kept


def _list(pods: list[Json]) -> Json:
    return {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": pods}


def _daemon_set(name: str) -> Json:
    labels = {"app": name}
    container = {"name": "one", "image": "one"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    about = {"name": name, "namespace": "team"}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": about, "spec": spec}


def _status(code: int, reason: str = "") -> Json:
    result = "Failure" if reason else "Success"
    document = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": result}
    return {**document, "code": code, "message": reason, **({"reason": reason} if reason else {})}


def _resource(name: str, kind: str, *verbs: str, **more: str) -> Json:
    namespaced = kind != "Node"
    about = {"name": name, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind}
    return {**about, "verbs": list(verbs), **more}


def _resources(version: str, *resources: Json) -> tuple[str, Json]:
    kind = {"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": version}
    return api.RESOURCES, {**kind, "resources": list(resources)}


def _group(name: str) -> Json:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


_DISCOVERY: dict[str, tuple[str, Json]] = {
    "/api": (
        api.VERSIONS,
        {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    ),
    "/apis": (
        api.GROUPS,
        {"apiVersion": "v1", "kind": "APIGroupList", "groups": [_group("apps"), _group("policy")]},
    ),
    "/api/v1": _resources(
        "v1",
        _resource("nodes", "Node", "get", "list", "patch"),
        _resource("pods", "Pod", "get", "list"),
        _resource("pods/eviction", "Eviction", "create", group="policy", version="v1"),
    ),
    "/apis/apps/v1": _resources("apps/v1", _resource("daemonsets", "DaemonSet", "get", "list")),
    "/apis/policy/v1": _resources("policy/v1"),
}
