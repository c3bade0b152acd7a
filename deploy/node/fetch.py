"""`fetch`: bring a model from the site's store and prove every byte against its manifest.

The revision is the beginning of the manifest's SHA-256, and the manifest names the SHA-256 of each
file, so a store that serves anything else is refused. Files already there and right are not fetched
again, which makes an interrupted fetch resume. The stamp `.complete` is written last.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import shutil
import sys
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath
from typing import Any

STAMP = ".complete"
_CHUNK = 1 << 20


class FetchError(Exception):
    """What could not be fetched or proven, in one line."""


def main(args: list[str]) -> int:
    """Fetch one model; exit 0 when it is complete and proven, 1 with one line otherwise."""
    parser = argparse.ArgumentParser(prog="fetch")
    parser.add_argument("--url", required=True, help="URL that holds manifest.json")
    parser.add_argument("--dest", required=True, type=Path)
    parser.add_argument("--revision", required=True)
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds without a byte")
    options = parser.parse_args(args)
    try:
        count = fetch(Store(options.url, options.token_file, options.timeout), options)
    except (FetchError, OSError, http.client.HTTPException) as error:
        print(f"model not fetched: {error}", file=sys.stderr)
        return 1
    print(f"{count} files")
    return 0


class Store:
    """A model store over HTTP, with an optional bearer token read from a root-only file."""

    def __init__(self, url: str, token_file: Path | None, timeout: float) -> None:
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._token = token_file.read_text().strip() if token_file else None

    def open(self, path: str) -> Any:
        """An open response for *path*; errors name the path and never the token."""
        request = urllib.request.Request(f"{self.url}/{path}")  # noqa: S310
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            return urllib.request.urlopen(request, timeout=self.timeout)  # noqa: S310
        except urllib.error.HTTPError as error:
            raise FetchError(f"{self.url}/{path}: HTTP {error.code} {error.reason}") from None
        except urllib.error.URLError as error:
            raise FetchError(f"{self.url}/{path}: {error.reason}") from None


def fetch(store: Store, options: argparse.Namespace) -> int:
    """Bring every file of the manifest to *options.dest*; returns how many there are."""
    with store.open("manifest.json") as response:
        raw = response.read()
    digest = hashlib.sha256(raw).hexdigest()
    if not digest.startswith(options.revision):
        raise FetchError(f"manifest is {digest[:12]}, asked for {options.revision}")
    files = _listed(raw)
    _check_space(options.dest, files)
    for file in files:
        _bring(store, options.dest, file)
    (options.dest / STAMP).write_text(options.revision)
    return len(files)


def _listed(manifest: bytes) -> list[dict[str, Any]]:
    keys = ("path", "size", "sha256")
    try:
        return [{key: file[key] for key in keys} for file in json.loads(manifest)["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise FetchError(f"manifest.json lists no files: {type(error).__name__}") from None


def _check_space(dest: Path, files: list[dict[str, Any]]) -> None:
    dest.mkdir(parents=True, exist_ok=True)
    missing = sum(f["size"] for f in files if not (dest / _safe(f["path"])).exists())
    free = shutil.disk_usage(dest).free
    if missing > free:
        raise FetchError(f"no disk space: {missing} bytes to fetch, {free} free under {dest}")


def _safe(path: str) -> PurePosixPath:
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts:
        raise FetchError(f"manifest names a path outside the model: {path}")
    return relative


def _bring(store: Store, dest: Path, file: dict[str, Any]) -> None:
    target = dest / _safe(file["path"])
    if target.exists() and _sha256(target) == file["sha256"]:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    with store.open(file["path"]) as response, partial.open("wb") as out:
        shutil.copyfileobj(response, out, _CHUNK)
    if _sha256(partial) != file["sha256"]:
        partial.unlink()
        raise FetchError(f"{file['path']}: content is not what the manifest names")
    partial.chmod(0o644)
    os.replace(partial, target)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
