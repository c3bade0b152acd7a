"""Evidence first: one archive of what the node can tell, on the controller before any change.

Kept under `evidence/NODE/`, or below the directory that B200_EVIDENCE names: readable by its owner
alone, for prompts may stand in a journal.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shlex
import tarfile
from pathlib import Path
from typing import Any

from b200kit.reprovision.actions import ActFailed, Evidence, Intent, Say
from b200kit.run.file_names import safe_name
from b200kit.run.node import Node
from b200kit.run.places import home
from b200kit.run.remote import RemoteError

VARIABLE = "B200_EVIDENCE"
"""Names another directory, such as one that the whole team shares."""
_WITHIN_S = 600


def directory() -> Path:
    """The directory of all archives."""
    return Path(os.environ.get(VARIABLE) or home() / "evidence")


def collect(node: Node, intent: Intent, say: Say) -> Evidence:
    """Fetch the node's archive and check every byte of it; what was fetched for this act is kept.

    Raises ActFailed; a node that does not answer has no evidence to give, which is said.
    """
    path = directory() / safe_name(node.name) / f"{safe_name(str(intent['id']))}.tar.gz"
    if path.exists():
        return Evidence(str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    content, told = _fetched(node, str(intent.get("why", "")))
    missing = _missing(content)
    _keep(path, content)
    short = f"; without {len(missing)} parts, which say why" if missing else ""
    say(f"evidence: {len(content) / 1e6:.1f} MB in {path}{short}")
    return Evidence(str(path), str(told["sha256"]))


def _fetched(node: Node, why: str) -> tuple[bytes, dict[str, Any]]:
    """The archive as the node described it."""
    try:
        said = node.connected().program(
            f"support-bundle --why {shlex.quote(why)}", timeout=_WITHIN_S
        )
    except RemoteError as error:
        raise ActFailed(f"no evidence could be taken: {error}") from None
    body, _, last = said.rstrip("\n").rpartition("\n")
    try:
        told, content = json.loads(last), base64.b64decode(body)
    except ValueError:
        raise ActFailed("no evidence could be taken: the answer is no archive") from None
    if hashlib.sha256(content).hexdigest() != told.get("sha256"):
        raise ActFailed("no evidence could be taken: the archive was damaged on its way")
    return content, told


def _missing(content: bytes) -> list[str]:
    """Names of the parts that could not be had. Raises ActFailed when one is not as described."""
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            files = {m.name.partition("/")[2]: archive.extractfile(m) for m in archive.getmembers()}
            contents = {name: file.read() for name, file in files.items() if file}
        parts = json.loads(contents["manifest.json"])["parts"]
    except (tarfile.TarError, OSError, KeyError, ValueError) as error:
        raise ActFailed(f"no evidence could be taken: {type(error).__name__}: {error}") from None
    for name, entry in parts.items():
        digest = hashlib.sha256(contents.get(name, b"")).hexdigest()
        if "unmeasured" not in entry and digest != entry["sha256"]:
            raise ActFailed(f"no evidence could be taken: {name} is not as its manifest says")
    return [name for name, entry in parts.items() if "unmeasured" in entry]


def _keep(path: Path, content: bytes) -> None:
    """Whole and on the disk, or not at all."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise ActFailed(f"the evidence cannot be kept in {path}: {error.strerror}") from None
