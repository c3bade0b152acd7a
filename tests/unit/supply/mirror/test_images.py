"""Container images for a mirror: what a registry says, and what is refused. skopeo is played."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit.supply.mirror import images
from b200kit.supply.program import SupplyRefused

HOST = "registry.example.internal"
CONFIG, LAYER = b"{}", b"layer"
# inspect shows the manifest; copy lays down the blobs that are there.
SKOPEO = """#!/bin/sh
for last; do :; done
case $1 in
inspect) [ -f {folder}/refusal ] && cat {folder}/refusal >&2 && exit 1; cat {folder}/manifest;;
copy) mkdir -p "${{last#dir:}}" && cp {folder}/blobs/* "${{last#dir:}}";;
esac
"""
Registry = Callable[[dict[str, Any]], str]


def digest(content: bytes) -> str:
    """As a registry names it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def described(content: bytes) -> dict[str, Any]:
    """A blob in a manifest."""
    return {"digest": digest(content), "size": len(content)}


MANIFEST = {"schemaVersion": 2, "config": described(CONFIG), "layers": [described(LAYER)] * 2}


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry with one manifest; the reference to it."""
    folder = tmp_path / "registry"
    (folder / "blobs").mkdir(parents=True)
    for blob in (CONFIG, LAYER):
        (folder / "blobs" / digest(blob).removeprefix("sha256:")).write_bytes(blob)
    program = folder / "skopeo"
    program.write_text(SKOPEO.format(folder=folder))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def has(manifest: dict[str, Any]) -> str:
        raw = json.dumps(manifest).encode()
        (folder / "manifest").write_bytes(raw)
        return f"{HOST}/vendor/engine@{digest(raw)}"

    return has


def test_image_is_laid_down_as_a_pull_asks_for_it(registry: Registry, tmp_path: Path) -> None:
    reference = registry(MANIFEST)
    said: list[str] = []
    found = images.find(reference)
    images.fetch(tmp_path / "mirror", found, said.append)
    images.fetch(tmp_path / "mirror", found, said.append)
    assert len(said) == 1
    folder = tmp_path / "mirror/v2/vendor/engine"
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == {
        f"manifests/{reference.rpartition('@')[2]}",
        *(f"blobs/{digest(blob)}" for blob in (CONFIG, LAYER)),
    }
    assert {f"{entry.path}" for entry in found.entries} == there


def test_image_that_was_broken_off_or_damaged_is_fetched_again(
    registry: Registry, tmp_path: Path
) -> None:
    found = images.find(registry(MANIFEST))
    said: list[str] = []
    images.fetch(tmp_path, found, said.append)
    blob = tmp_path / found.folder / f"blobs/{digest(LAYER)}"
    blob.write_bytes(b"half")
    (tmp_path / found.folder / ".building").mkdir()
    images.fetch(tmp_path, found, said.append)
    assert (len(said), blob.read_bytes()) == (2, LAYER)


def test_blob_that_is_another_one_is_refused(registry: Registry, tmp_path: Path) -> None:
    found = images.find(registry(MANIFEST))
    [played] = (tmp_path / "registry/blobs").glob(f"{digest(LAYER).removeprefix('sha256:')}")
    played.write_bytes(b"other")
    with pytest.raises(SupplyRefused, match="not what its digest says"):
        images.fetch(tmp_path, found, lambda _: None)


def test_list_for_several_machines_is_refused_with_the_one_to_give(registry: Registry) -> None:
    fits = {"digest": digest(b"it"), "platform": {"architecture": "amd64", "os": "linux"}}
    other = {"digest": digest(b"arm"), "platform": {"architecture": "arm64", "os": "linux"}}
    with pytest.raises(SupplyRefused, match=f"give {HOST}/vendor/engine@{digest(b'it')}"):
        images.find(registry({"manifests": [other, fits]}))
    with pytest.raises(SupplyRefused, match=r"one a kind of machine$"):
        images.find(registry({"manifests": [other]}))


@pytest.mark.parametrize(
    "reference",
    [f"{HOST}/vendor/engine:latest", f"{HOST}/../engine@{digest(b'')}", f"engine@{digest(b'')}"],
)
def test_what_is_no_reference_by_digest_is_refused(reference: str) -> None:
    with pytest.raises(SupplyRefused, match="is no HOST/NAME@sha256:DIGEST"):
        images.find(reference)


@pytest.mark.parametrize(
    "manifest",
    [{}, {"config": described(b""), "layers": [{"digest": "sha256:../x", "size": 1}]}],
)
def test_manifest_of_another_kind_is_refused(registry: Registry, manifest: dict[str, Any]) -> None:
    with pytest.raises(SupplyRefused, match="none that is known"):
        images.find(registry(manifest))


def test_manifest_of_another_digest_is_refused(registry: Registry) -> None:
    registry(MANIFEST)
    with pytest.raises(SupplyRefused, match="is another one"):
        images.find(f"{HOST}/vendor/engine@{digest(b'foreign')}")


def test_what_skopeo_says_is_the_reason(registry: Registry, tmp_path: Path) -> None:
    reference = registry(MANIFEST)
    line = 'time="2026" level=fatal msg="reading manifest in \\"it\\": denied"\n'
    (tmp_path / "registry/refusal").write_text(line)
    with pytest.raises(SupplyRefused, match=r'engine.*: reading manifest in "it": denied'):
        images.find(reference)


def test_missing_skopeo_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SupplyRefused, match="skopeo is not installed"):
        images.find(f"{HOST}/vendor/engine@{digest(b'')}")
