"""Container images by skopeo, laid down as a pull by digest asks for them: any web server will do.

`v2/NAME/manifests/DIGEST` and `v2/NAME/blobs/DIGEST` (OCI distribution specification, "Pulling
manifests" and "Pulling blobs"). Registries, their logins and their certificates are skopeo's own
matter. A digest is the SHA-256 of what it names, so that every byte is proven where it arrives.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b200kit.node.lib import documents, durable_files
from b200kit.node.weights.download import sha256
from b200kit.node.weights.manifest import ManifestFile
from b200kit.supply.program import SupplyRefused, run

FOLDER = "v2"
_REFERENCE = re.compile(r"(?P<host>[^/]+)/(?P<name>[a-z0-9/._-]+)@sha256:(?P<hex>[0-9a-f]{64})")
_BLOB = re.compile(r"sha256:[0-9a-f]{64}")
_BUILDING = ".building"
_LOOK_S, _FETCH_S = 300, 4 * 3600


@dataclass(frozen=True)
class Image:
    """An image: its manifest, and its files as the mirror has them below `folder`."""

    reference: str
    name: str
    manifest: bytes
    entries: tuple[ManifestFile, ...]

    @property
    def folder(self) -> str:
        """Where the mirror has it."""
        return f"{FOLDER}/{self.name}"


def find(reference: str) -> Image:
    """The image that HOST/NAME@sha256:DIGEST names at its registry; raises SupplyRefused."""
    match = _REFERENCE.fullmatch(reference)
    if not match or {"", ".", ".."} & {*match["name"].split("/")}:
        raise SupplyRefused(f"{reference} is no HOST/NAME@sha256:DIGEST")
    raw = _skopeo(reference, _LOOK_S, "inspect", "--raw", f"docker://{reference}")
    if hashlib.sha256(raw).hexdigest() != match["hex"]:
        raise SupplyRefused(f"{reference}: the registry's manifest is another one")
    try:
        files = _files(reference, documents.parse(raw, documents.LARGE))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SupplyRefused(f"{reference}: its manifest is none that is known") from None
    own = ManifestFile(f"manifests/sha256:{match['hex']}", len(raw), match["hex"])
    return Image(reference, match["name"], raw, (own, *files))


def _files(reference: str, manifest: Mapping[str, Any]) -> tuple[ManifestFile, ...]:
    """The blobs of a manifest; a list of images for several machines is refused."""
    if "manifests" in manifest:
        fits = {"architecture": "amd64", "os": "linux"}.items()
        found = [each for each in manifest["manifests"] if fits <= each.get("platform", {}).items()]
        give = f": give {reference.partition('@')[0]}@{found[0]['digest']}" if found else ""
        raise SupplyRefused(f"{reference} is a list of images, one a kind of machine{give}")
    blobs = {each["digest"]: each for each in (manifest["config"], *manifest["layers"])}
    if not all(map(_BLOB.fullmatch, blobs)):
        raise ValueError
    return tuple(
        ManifestFile(f"blobs/{digest}", int(each["size"]), digest.removeprefix("sha256:"))
        for digest, each in blobs.items()
    )


def fetch(root: Path, image: Image, say: Callable[[str], None]) -> None:
    """Bring what is not there; an image that was broken off begins again."""
    folder = root / image.folder
    if all(_is_there(folder, entry) for entry in image.entries):
        return
    say(f"{image.reference}: {len(image.entries) - 1} files")
    building = folder / _BUILDING
    shutil.rmtree(building, ignore_errors=True)
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    _skopeo(
        image.reference, _FETCH_S, "copy", "--quiet", "--preserve-digests",
        f"docker://{image.reference}", f"dir:{building}",
    )  # fmt: skip
    for entry in image.entries[1:]:
        (building / entry.sha256).replace(folder / entry.path)
    (folder / "manifests").mkdir(exist_ok=True)
    durable_files.replace(folder / image.entries[0].path, image.manifest)
    shutil.rmtree(building)
    for entry in image.entries:
        if not _is_there(folder, entry):
            raise SupplyRefused(f"{image.reference}: {entry.path} is not what its digest says")


def _is_there(folder: Path, entry: ManifestFile) -> bool:
    path = folder / entry.path
    return path.is_file() and sha256(path) == entry.sha256


def media_type(manifest: Path) -> str:
    """What a manifest says it is; without it a client takes a manifest for another kind."""
    try:
        document = documents.decode(
            documents.Object, manifest.read_bytes(), documents.LARGE, manifest
        )
    except documents.Malformed as error:
        raise SupplyRefused(str(error)) from None
    said = document.get("mediaType")
    return str(said or "application/vnd.oci.image.manifest.v1+json")


def _skopeo(reference: str, limit_s: int, *words: str) -> bytes:
    done = run("skopeo", ["skopeo", *words], limit_s)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise SupplyRefused(f"{reference}: {_why(said[-1]) if said else 'skopeo gave no reason'}")
    return bytes(done.stdout)


def _why(line: str) -> str:
    """The message of a line in logfmt (time=... level=fatal msg="...")."""
    found = re.search(r'msg="((?:[^"\\]|\\.)*)"', line)
    return found[1].split("\\n")[0].replace('\\"', '"') if found else line
