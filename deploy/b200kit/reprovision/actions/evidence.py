"""Evidence first: one archive of what the node knows, on the controller before any change.

Kept under `evidence/NODE/`, or below the directory that B200_EVIDENCE names: readable by its owner
alone, for prompts may stand in a journal.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from pathlib import Path
from typing import Any

from b200kit.inventory.keys.kept import Kept
from b200kit.node.lib import documents, durable_files
from b200kit.node.maintenance.support_bundle import PACKED_BYTES, PART_BYTES, UNPACKED_BYTES
from b200kit.reprovision import transaction
from b200kit.reprovision.actions import ActionFailed, Say
from b200kit.reprovision.fleet_limits import SAFETY
from b200kit.reprovision.ledger import Transactions
from b200kit.reprovision.ledger_line import EvidenceBundle, IntentLine
from b200kit.run import kept, node_archive
from b200kit.run.node import Node
from b200kit.run.places import home, safe_name
from b200kit.run.remote import RemoteError
from b200kit.store.database import StoreError

VARIABLE = "B200_EVIDENCE"
"""Names another directory, such as one that the whole team shares."""
_WITHIN_S = 600
_PRINTED = node_archive.printed_bytes(PACKED_BYTES)
_MOST_FILES = 100


def directory() -> Path:
    """The directory of all archives."""
    return Path(os.environ.get(VARIABLE) or home() / "evidence")


def collect(node: Node, intent: IntentLine, say: Say) -> EvidenceBundle:
    """Fetch the node's archive and check every byte; one fetched for this action is reused.

    Raises ActionFailed; a node that does not answer has no evidence to give.
    """
    path = directory() / safe_name(node.name) / f"{safe_name(intent.id)}.tar.gz"
    if path.exists():
        return EvidenceBundle(str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    content, description = _fetched(node, intent.why)
    missing = _missing(content)
    _save(path, content)
    short = f"; without {len(missing)} parts, which say why" if missing else ""
    say(f"evidence: {len(content) / 1e6:.1f} MB in {path}{short}")
    if line := prune(directory(), SAFETY.transactions, node.spec.kept):
        say(line)
    return EvidenceBundle(str(path), str(description["sha256"]))


def _fetched(node: Node, why: str) -> tuple[bytes, dict[str, Any]]:
    """The archive as the node described it."""
    try:
        output = node.connected().program(
            f"support-bundle --why {shlex.quote(why)}", timeout=_WITHIN_S, most_bytes=_PRINTED
        )
        return node_archive.received(output)
    except (RemoteError, ValueError) as error:
        raise ActionFailed(f"no evidence could be taken: {error}") from None


def _missing(content: bytes) -> list[str]:
    """Names of the parts that could not be had. ActionFailed when one is not as described."""
    try:
        manifest, digests = _contents(content)
        parts: dict[str, dict[str, Any]] = documents.parse(manifest, documents.LARGE)["parts"]
        missing = [name for name, entry in parts.items() if "unmeasured" in entry]
        wrong = [n for n in parts if n not in missing and digests.get(n) != parts[n]["sha256"]]
    except (*node_archive.BROKEN, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ActionFailed(f"no evidence could be taken: {type(error).__name__}: {error}") from None
    if wrong:
        raise ActionFailed(f"no evidence could be taken: {wrong[0]} is not as its manifest says")
    return missing


def _contents(content: bytes) -> tuple[bytes, dict[str, str]]:
    """The manifest and the digest of each file, by a stream: nothing else is held unpacked."""
    manifest, digests = b"", dict[str, str]()
    for name, file in node_archive.files(content, UNPACKED_BYTES, _MOST_FILES):
        if name == "manifest.json":
            manifest = file.read(PART_BYTES)
        digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return manifest, digests


def _save(path: Path, content: bytes) -> None:
    """Whole and on the disk, or not at all."""
    try:
        durable_files.replace(path, content, 0o600)
    except OSError as error:
        raise ActionFailed(f"the evidence cannot be saved in {path}: {error.strerror}") from None


def prune(evidence: Path, transactions: Transactions, asked: Kept) -> str:
    """Remove what is too old or too much; returns a line about it, or nothing. Never raises.

    Only archives of nodes that the transactions know go, and none of a transaction that is open or
    that cannot be read: another site may need what this one does not know of.
    """
    going = kept.spare(kept.archives(evidence), asked, time.time())
    if not going:
        return ""
    try:
        known = {safe_name(node): node for node in transactions.nodes()}
    except StoreError as error:
        return str(error)
    needed_from = {
        folder: _needed_from(transactions, node)
        for folder, node in known.items()
        if folder in {leaving.of for leaving in going}
    }
    done = [leaving for leaving in going if leaving.at < needed_from.get(leaving.of, 0.0)]
    return kept.remove(done, asked, "archives")


def _needed_from(transactions: Transactions, node: str) -> float:
    """When a node's transaction was opened; endless for none, never for one that is damaged."""
    try:
        tx = transactions.read(node)
        return transaction.seconds(tx.opened) if tx.is_open else float("inf")
    except (StoreError, ValueError):
        return float("-inf")
