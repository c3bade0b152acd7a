"""Evidence first: one archive of what the node knows, on the controller before any change.

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

from b200kit.node.lib import durable_files
from b200kit.reprovision.actions import ActionFailed, Evidence, Intent, Say
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
    """Fetch the node's archive and check every byte; one fetched for this action is reused.

    Raises ActionFailed; a node that does not answer has no evidence to give.
    """
    path = directory() / safe_name(node.name) / f"{safe_name(str(intent['id']))}.tar.gz"
    if path.exists():
        return Evidence(str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    content, description = _fetched(node, str(intent.get("why", "")))
    missing = _missing(content)
    _save(path, content)
    short = f"; without {len(missing)} parts, which say why" if missing else ""
    say(f"evidence: {len(content) / 1e6:.1f} MB in {path}{short}")
    return Evidence(str(path), str(description["sha256"]))


def _fetched(node: Node, why: str) -> tuple[bytes, dict[str, Any]]:
    """The archive as the node described it."""
    try:
        output = node.connected().program(
            f"support-bundle --why {shlex.quote(why)}", timeout=_WITHIN_S
        )
    except RemoteError as error:
        raise ActionFailed(f"no evidence could be taken: {error}") from None
    body, _, last = output.rstrip("\n").rpartition("\n")
    try:
        description, content = json.loads(last), base64.b64decode(body)
    except ValueError:
        raise ActionFailed("no evidence could be taken: the answer is no archive") from None
    if hashlib.sha256(content).hexdigest() != description.get("sha256"):
        raise ActionFailed("no evidence could be taken: the archive was damaged on its way")
    return content, description


def _missing(content: bytes) -> list[str]:
    """Names of the parts that could not be had. ActionFailed when one is not as described."""
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            files = {m.name.partition("/")[2]: archive.extractfile(m) for m in archive.getmembers()}
            contents = {name: file.read() for name, file in files.items() if file}
        parts = json.loads(contents["manifest.json"])["parts"]
    except (tarfile.TarError, OSError, KeyError, ValueError) as error:
        raise ActionFailed(f"no evidence could be taken: {type(error).__name__}: {error}") from None
    for name, entry in parts.items():
        digest = hashlib.sha256(contents.get(name, b"")).hexdigest()
        if "unmeasured" not in entry and digest != entry["sha256"]:
            raise ActionFailed(f"no evidence could be taken: {name} is not as its manifest says")
    return [name for name, entry in parts.items() if "unmeasured" in entry]


def _save(path: Path, content: bytes) -> None:
    """Whole and on the disk, or not at all."""
    try:
        durable_files.replace(path, content, 0o600)
    except OSError as error:
        raise ActionFailed(f"the evidence cannot be saved in {path}: {error.strerror}") from None
