"""Container images written by hand, as the files that any HTTP server serves as a registry.

`v2/NAME/manifests/DIGEST` and `v2/NAME/blobs/DIGEST` are all that a pull by digest asks for (OCI
distribution specification, "Pulling manifests" and "Pulling blobs"). Layers are plain tar files:
an emulated processor would take minutes to decompress them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.lab.shell import run
from tests.lab.supply.mirror import MANIFEST

_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_PATH = "PATH=/usr/local/bin:/usr/bin:/bin"


def pack(tree: Path, layer: Path) -> None:
    """Write a tree as a layer: the same bytes for the same files."""
    options = ("--sort=name", "--mtime=@0", "--numeric-owner", "--owner=0", "--group=0")
    run(["tar", *options, "--create", "--file", layer, "--directory", tree, "."], timeout=600)


def publish(registry: Path, name: str, layers: Sequence[Path]) -> str:
    """Write an image of some layers below ``registry``/v2/``name``; returns its digest."""
    target = registry / "v2" / name
    described = [_put_file(target, layer) for layer in layers]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": [_PATH]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in described]},
    }
    blob = json.dumps(config).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": _CONFIG, **_put(target / "blobs", blob)},
        "layers": described,
    }
    return str(_put(target / "manifests", json.dumps(manifest).encode())["digest"])


def _put(folder: Path, content: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / digest).write_bytes(content)
    return {"digest": digest, "size": len(content)}


def _put_file(target: Path, layer: Path) -> dict[str, Any]:
    with open(layer, "rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    link = target / "blobs" / digest
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(layer)
    return {"mediaType": _LAYER, "digest": digest, "size": layer.stat().st_size}
