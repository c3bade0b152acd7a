"""A sealed run on the controller: brought from its node, kept whole, verified again at any time.

What holds of a run that is verified:

1. SHA256SUMS names every file of the folder but itself and its signature, and no other; there is no
   link or device among them, and each has the digest that stands there.
2. The node that the plan names signed SHA256SUMS for acceptance, with its pinned host key.
3. Plan and lines are read strictly, and each raw file is the one that its line names.
4. The verdict is what anybody computes of plan and lines.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
_SUM = re.compile(r"([0-9a-f]{64})  (\S+)")
_NAME = re.compile(r"(?:raw/)?[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
Allowed = Callable[[str], str]
"""A node's name to its lines of allowed signers (run/signed_proof.py); raises ValueError."""


@dataclass(frozen=True)
class AcceptanceRun:
    """A run as it was read: where it lies, what was to be done, what was done."""

    path: Path
    plan: AcceptancePlan
    lines: tuple[SegmentLine, ...]


@dataclass(frozen=True)
class SealedRun(AcceptanceRun):
    """One that was verified: its verdict, the key that signed it, the digest of its SHA256SUMS."""

    verdict: Verdict
    signed_by: str
    sums: str


def directory() -> Path:
    """Where the site keeps its runs."""
    return home() / "acceptance"


def place_of(node: str, run: str) -> Path:
    """The folder of a run."""
    return directory() / safe_name(f"{node}-{run.removeprefix(f'{node}-')}")


def read(path: Path) -> AcceptanceRun:
    """A run as it lies there, sealed or not. Raises OSError and ValueError."""
    plan, lines = folders.read(path)
    return AcceptanceRun(path, plan, tuple(lines))


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
    return SealedRun(**{**vars(found), "path": target})


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
    """The run in a folder, of *node* where one is named.

    Raises OSError where it cannot be read, and ValueError, which names the file that is not as it
    was sealed.
    """
    listed = (path / SUMS).read_bytes()
    sums = dict(_sums(listed))
    _require_complete(path, sums)
    for name, digest in sums.items():
        if folders.sha256(path / name) != digest:
            raise ValueError(f"{name}: its content is not what was sealed")
    found = read(path)
    plan = found.plan
    if node is not None and plan.node != node:
        raise ValueError(f"plan.json: it is a run of {plan.node}, not of {node}")
    signature = (path / SIGNATURE).read_bytes()
    if signature != _armoured(signature):
        raise ValueError(f"{SIGNATURE}: it is not as ssh-keygen writes it")
    key = signed_proof.signer(listed, signature, plan.node, allowed(plan.node), ACCEPTANCE)
    if not key:
        raise ValueError(f"{SIGNATURE}: {plan.node} did not sign {SUMS} with its pinned key")
    for line in found.lines:
        for name, digest in line.raw.items():
            if sums.get(name) != digest:
                raise ValueError(f"{name}: it is not the output that lines.jsonl names")
    computed = verdict(plan, found.lines)
    if documents.load(Verdict, path / VERDICT) != computed:
        raise ValueError(f"{VERDICT}: plan and lines come to another verdict")
    digest = hashlib.sha256(listed).hexdigest()
    return SealedRun(path, plan, found.lines, computed, key, digest)


def _armoured(signature: bytes) -> bytes:
    """A signature as ssh-keygen writes it, of which it also reads other forms (sshsig.c)."""
    body = b"".join(signature.split(b"\n")[1:-2])
    try:
        text = base64.b64encode(base64.b64decode(body))
    except ValueError:
        return b""
    lines = (text[at : at + _COLUMNS] for at in range(0, len(text), _COLUMNS))
    return b"\n".join([_BEGIN, *lines, _END, b""])


def _sums(listed: bytes) -> Iterator[tuple[str, str]]:
    """File and digest, of each line as sha256sum writes it."""
    names = set[str]()
    *lines, rest = listed.decode("utf-8", "replace").split("\n")
    for text in [*lines, rest] if rest else lines:
        line = _SUM.fullmatch(text)
        if line is None or line[2] in names or not _NAME.fullmatch(line[2]):
            raise ValueError(f"{SUMS}: {text[:80]!r} is no line of it")
        names.add(line[2])
        yield line[2], line[1]


def _require_complete(path: Path, sums: Mapping[str, str]) -> None:
    there = dict(_entries(path))
    for name in sorted(there.keys() | sums):
        if name not in there:
            raise ValueError(f"{name}: it is missing")
        if not there[name]:
            raise ValueError(f"{name}: it is no plain file")
        if name not in sums and name not in (SUMS, SIGNATURE):
            raise ValueError(f"{name}: it is not in {SUMS}")


def _entries(path: Path) -> Iterator[tuple[str, bool]]:
    """Each entry below a folder, and whether it is a plain file."""
    for above, inner, files in os.walk(path):
        for name in (*inner, *files):
            entry = Path(above, name)
            plain = entry.is_file() and not entry.is_symlink()
            if plain or not entry.is_dir() or entry.is_symlink():
                yield entry.relative_to(path).as_posix(), plain


def runs(paths: Sequence[Path] = ()) -> list[AcceptanceRun]:
    """The runs in some folders, of the site where none is named. Raises OSError and ValueError."""
    own = directory() if not paths else None
    every = paths or (
        sorted(p for p in own.iterdir() if _is_run(p)) if own and own.is_dir() else ()
    )
    return [read(path) for path in every]


def _is_run(path: Path) -> bool:
    return (path / SIGNATURE).exists() and not path.name.startswith(".")
