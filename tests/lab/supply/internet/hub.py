"""A small Hub: repositories in memory, served as huggingface_hub's own client asks for them.

Large files lie on another host, as on the real one: whoever asks is redirected there, and the other
host refuses whoever brings a token along. Small ones are redirected to a path of the same host,
which wants the token again. Held to the real client: tests/unit/supply/models/test_hub.py.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

LARGE = ".safetensors"
_API = re.compile(
    r"/api/models/(?P<repo>[^/]+/[^/]+)(?:/(?P<what>revision|tree)/(?P<commit>[^/]+))?"
)
_MAY = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/auth-check")
_RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<commit>[^/]+)/(?P<path>.+)")
_KEPT = re.compile(
    r"/api/resolve-cache/models/(?P<repo>[^/]+/[^/]+)/(?P<commit>[^/]+)/(?P<path>.+)"
)
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Repository:
    """One commit of a repository; *token* is what a gated one wants.

    *listed* are the files that the commit has, where others are served.
    """

    files: dict[str, bytes]
    commit: str = "c" * 40
    token: str | None = None
    listed: dict[str, bytes] | None = None

    def tree(self) -> list[dict[str, Any]]:
        """Its files as the Hub lists them."""
        return [
            _listed(path, content) for path, content in sorted((self.listed or self.files).items())
        ]


def _listed(path: str, content: bytes) -> dict[str, Any]:
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    row: dict[str, Any] = {"type": "file", "path": path, "size": len(content)}
    if not path.endswith(LARGE):
        return {**row, "oid": blob.hexdigest()}
    large = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return {**row, "oid": "0" * 40, "lfs": large}


@dataclass
class Hub:
    """The Hub's repositories, what was asked of it, and where large files break off."""

    repositories: dict[str, Repository]
    url: str = ""
    store_url: str = ""
    asked: list[str] = field(default_factory=list)
    # Path and first byte of what the other host sent; tokens that came to it.
    sent: list[tuple[str, int]] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    # After so many bytes the connection of a large file ends, so many times.
    cut_at: int = 0
    cuts: int = 0
    # After so many bytes nothing more of a large file comes until `go_on` is set.
    hold_at: int | None = None
    go_on: threading.Event = field(default_factory=threading.Event)


@contextmanager
def served(hub: Hub, address: str = "127.0.0.1", store_address: str = "127.0.0.2") -> Iterator[Hub]:
    """The Hub on one address and the store of its large files on another, until the end."""
    front = ThreadingHTTPServer((address, 0), type("Front", (_Front,), {"hub": hub}))
    store = ThreadingHTTPServer((store_address, 0), type("Store", (_Store,), {"hub": hub}))
    hub.url = f"http://{address}:{front.server_port}"
    hub.store_url = f"http://{store_address}:{store.server_port}"
    servers = (front, store)
    threads = [
        threading.Thread(target=each.serve_forever, args=(0.01,), daemon=True) for each in servers
    ]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """As GET, without a body."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer."""
        raise NotImplementedError

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Status, headers with dashes for underscores, and the body but for HEAD."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _Front(_Handler):
    """The API, small files, and the way to large ones."""

    def do_GET(self) -> None:
        """Answer."""
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(path)
        acts = {
            _API: self._api, _MAY: self._may, _RESOLVE: self._resolve, _KEPT: self._kept,
        }  # fmt: skip
        for pattern, act in acts.items():
            if found := pattern.fullmatch(path):
                return self._found(found, act)
        return self.answer(404)

    def _found(self, found: re.Match[str], act: Any) -> None:
        repository = self.hub.repositories.get(found["repo"])
        if repository is None:
            return self.answer(404, X_Error_Code="RepoNotFound")
        said = self.headers.get("Authorization")
        wanted = f"Bearer {repository.token}"
        if said and said != wanted and repository.token:
            # As the Hub answers a token it does not know, whatever is asked for.
            return self.answer(401, X_Error_Message="Invalid credentials in Authorization header")
        if repository.token and said != wanted and act != self._api:
            return self.answer(
                401, X_Error_Code="GatedRepo", X_Error_Message="Access is restricted"
            )
        if (found.groupdict().get("commit") or repository.commit) != repository.commit:
            return self.answer(404, X_Error_Code="RevisionNotFound")
        act(found, repository)
        return None

    def _api(self, found: re.Match[str], repository: Repository) -> None:
        model: dict[str, Any] = {"id": found["repo"], "sha": repository.commit, "siblings": []}
        model["gated"] = "manual" if repository.token else False
        document = repository.tree() if found["what"] == "tree" else model
        self.answer(200, json.dumps(document).encode(), Content_Type="application/json")

    def _may(self, found: re.Match[str], repository: Repository) -> None:
        del found, repository
        self.answer(200)

    def _resolve(self, found: re.Match[str], repository: Repository) -> None:
        path = found["path"]
        if path not in repository.files:
            return self.answer(404, X_Error_Code="EntryNotFound")
        row = _listed(path, repository.files[path])
        said = {"X_Repo_Commit": repository.commit, "X_Linked_Size": str(row["size"])}
        if "lfs" in row:
            to = f"{self.hub.store_url}/{found['repo']}/{path}"
            said |= {"X_Linked_Etag": f'"{row["lfs"]["oid"]}"', "Location": to}
            return self.answer(302, b"", **said)
        to = f"/api/resolve-cache/models/{found['repo']}/{found['commit']}/{path}"
        return self.answer(307, b"", Location=to, ETag=f'"{row["oid"]}"', **said)

    def _kept(self, found: re.Match[str], repository: Repository) -> None:
        content = repository.files[found["path"]]
        tag = _listed(found["path"], content)["oid"]
        self.answer(200, content, X_Repo_Commit=repository.commit, ETag=f'"{tag}"')


class _Store(_Handler):
    """Large files, on another host, which wants no token."""

    def do_GET(self) -> None:
        """Answer from the byte asked for, to the end or to where it breaks off."""
        _, owner, name, path = unquote(urlsplit(self.path).path).split("/", 3)
        if said := self.headers.get("Authorization"):
            self.hub.leaked.append(said)
            return self.answer(400)
        content = self.hub.repositories[f"{owner}/{name}"].files[path]
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        first = int(asked[1]) if asked else 0
        last = int(asked[2]) + 1 if asked and asked[2] else len(content)
        self.hub.sent.append((path, first))
        part = content[first:last]
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if self.command != "HEAD":
            with suppress(ConnectionError):
                self._send(part)
        return None

    def _send(self, part: bytes) -> None:
        if self.hub.hold_at is not None and len(part) > self.hub.hold_at:
            self.wfile.write(part[: self.hub.hold_at])
            self.hub.go_on.wait(60)
            part = part[self.hub.hold_at :]
        if self.hub.cuts and len(part) > self.hub.cut_at:
            self.hub.cuts -= 1
            self.wfile.write(part[: self.hub.cut_at])
            self.close_connection = True
        else:
            self.wfile.write(part)
