"""A sealed run on the controller: brought from its node, kept whole, verified again at any time.

What holds of a run that is verified:

1. SHA256SUMS is that of the folder: every file but itself and signatures, each with its digest,
   and no link or device among them.
2. The node that the plan names signed SHA256SUMS for acceptance, with its pinned host key.
3. Plan and lines are read strictly, and each raw file is the one that its line names.
4. The verdict is what anybody computes of plan and lines.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from b200kit.node.acceptance import folder as folders
from b200kit.node.acceptance.folder import SIGNATURE, SUMS, VERDICT
from b200kit.node.acceptance.verdict import verdict
from b200kit.node.lib import documents, durable_files
from b200kit.node.lib.signature import ACCEPTANCE
from b200kit.node.state.acceptance import AcceptancePlan, SegmentLine
from b200kit.node.state.verdict import Verdict
from b200kit.run import node_archive, signed_proof
from b200kit.run.places import home, safe_name

PACKED_BYTES = 64 << 20
UNPACKED_BYTES = 512 << 20
_MOST_FILES = 10_000
_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
_COLUMNS = 70
_NAME = re.compile(r"(?:raw/)?[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
Allowed = Callable[[str], str]
"""A node's name to its lines of allowed signers (run/signed_proof.py); raises ValueError."""


@dataclass(frozen=True)
class SealedRun:
    """A run that was verified: by which key it is signed, and the SHA-256 of its SHA256SUMS."""

    path: Path
    plan: AcceptancePlan
    lines: tuple[SegmentLine, ...]
    verdict: Verdict
    signed_by: str
    sums: str


def directory() -> Path:
    """Where the site keeps its runs."""
    return home() / "acceptance"


def place_of(node: str, run: str) -> Path:
    """The folder of a run."""
    return directory() / safe_name(f"{node}-{run}")


def keep(content: bytes, target: Path, allowed: Allowed, node: str) -> SealedRun:
    """Put an archive into its folder and verify it; nothing is there before all of it is.

    Raises OSError, and ValueError for what is no run that *node* sealed.
    """
    began = target.with_name(f".{target.name}.new")
    shutil.rmtree(began, ignore_errors=True)
    try:
        _unpack(content, began)
        found = verified(began, allowed, node)
        os.rename(began, target)
        durable_files.sync_directory(target.parent)
    finally:
        shutil.rmtree(began, ignore_errors=True)
    return replace(found, path=target)


def _unpack(content: bytes, target: Path) -> None:
    try:
        for name, file in node_archive.files(content, UNPACKED_BYTES, _MOST_FILES):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name} is no file of a run")
            durable_files.replace(target / name, file.read())
    except OSError:
        raise
    except node_archive.BROKEN as error:
        raise ValueError(f"no sealed run came: {type(error).__name__}: {error}") from None


def verified(path: Path, allowed: Allowed, node: str | None = None) -> SealedRun:
    """The run in a folder, of *node* where one is named. Raises as `require_sealed` does."""
    plan, lines = folders.read(path)
    if node is not None and plan.node != node:
        raise ValueError(f"plan.json: it is a run of {plan.node}, not of {node}")
    sums, keys = require_sealed(path, {SIGNATURE: plan.node}, allowed)
    for line in lines:
        for name, digest in line.raw.items():
            if sums.get(name) != digest:
                raise ValueError(f"{name}: it is not the output that lines.jsonl names")
    computed = verdict(plan, lines)
    if documents.load(Verdict, path / VERDICT) != computed:
        raise ValueError(f"{VERDICT}: plan and lines come to another verdict")
    return SealedRun(
        path, plan, tuple(lines), computed, keys[SIGNATURE], folders.sha256(path / SUMS)
    )


def require_sealed(
    path: Path, signatures: Mapping[str, str], allowed: Allowed
) -> tuple[dict[str, str], dict[str, str]]:
    """The digest of each file that was sealed, and the fingerprint of the key of each signature.

    *signatures*: their files, each with the node that signed. Raises OSError where the folder
    cannot be read, and ValueError, which names the file that is not as it was sealed.
    """
    listed = documents.content(path / SUMS)
    for entry in path.rglob("*"):
        if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
            raise ValueError(f"{entry.relative_to(path)}: it is no plain file")
    there = folders.sums(path, signatures)
    sealed, found = _digests(listed), _digests(there)
    if listed != there:
        every = sorted(sealed.keys() | found)
        name = next((name for name in every if sealed.get(name) != found.get(name)), SUMS)
        how = "it is missing" if name in sealed.keys() - found else "it is not what was sealed"
        raise ValueError(f"{name}: {how}")
    keys = {}
    for name, node in signatures.items():
        signature = documents.content(path / name)
        if signature != _armoured(signature):
            raise ValueError(f"{name}: it is not as ssh-keygen writes it")
        keys[name] = signed_proof.signer(listed, signature, node, allowed(node), ACCEPTANCE)
        if not keys[name]:
            raise ValueError(f"{name}: {node} did not sign {SUMS} with its pinned key")
    return sealed, keys


def _digests(sums: bytes) -> dict[str, str]:
    rows = (line.partition("  ") for line in sums.decode("utf-8", "replace").splitlines())
    return {name: digest for digest, _, name in rows}


def _armoured(signature: bytes) -> bytes:
    """A signature as ssh-keygen writes it, of which it also reads other forms (sshsig.c)."""
    body = b"".join(signature.split(b"\n")[1:-2])
    try:
        text = base64.b64encode(base64.b64decode(body))
    except ValueError:
        return b""
    lines = (text[at : at + _COLUMNS] for at in range(0, len(text), _COLUMNS))
    return b"\n".join([_BEGIN, *lines, _END, b""])


def runs(paths: Sequence[Path] = ()) -> list[tuple[AcceptancePlan, list[SegmentLine]]]:
    """The runs in some folders, of the site where none is named. Raises OSError and ValueError."""
    own = sorted(signed.parent for signed in directory().glob(f"[!.]*/{SIGNATURE}"))
    return [folders.read(path) for path in paths or own]
