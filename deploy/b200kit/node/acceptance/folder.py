"""The folder of an acceptance run: its files by name, read strictly, appended to, and sealed.

Whoever reads takes every line or none. Whoever goes on with a run first cuts off a last line that
a power cut left half written (`mend`); its segment is run again.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeVar

from b200kit.node.lib import documents, durable_files, signature
from b200kit.node.lib.documents import LARGE, Malformed
from b200kit.node.lib.managed_files import STATE_DIRECTORY
from b200kit.node.state.acceptance import AcceptancePlan, SegmentLine
from b200kit.node.state.verdict import Verdict

ROOT = STATE_DIRECTORY / "acceptance"
PLAN = "plan.json"
LINES = "lines.jsonl"
RAW = "raw"
VERDICT = "verdict.json"
SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"
Half = Literal["refused", "ignored"]
T = TypeVar("T")


def read(path: Path, half: Half = "refused") -> tuple[AcceptancePlan, list[SegmentLine]]:
    """The plan of a folder and its lines, in the order they were written.

    `half`: what a last line without its end is, as while it is written. Raises FileNotFoundError
    where there is no plan, and Malformed, with the file and the line, for what cannot be read.
    """
    return documents.load(AcceptancePlan, path / PLAN), lines(path, SegmentLine, half)


def lines(path: Path, kind: type[T], half: Half = "refused") -> list[T]:
    """The lines of a folder, each a document of a kind; as `read` has them."""
    file = path / LINES
    content = file.read_bytes() if file.exists() else b""
    if len(content) > LARGE:
        raise Malformed(f"{file}: larger than {LARGE} bytes")
    *whole, rest = content.split(b"\n")
    if rest and half == "refused":
        raise Malformed(f"{file}: its last line has no end")
    places = (f"{file}: line {number}" for number in range(1, len(whole) + 1))
    return [
        documents.decode(kind, line, source=place)
        for line, place in zip(whole, places, strict=True)
    ]


def mend(path: Path) -> None:
    """Cut off a last line that has no end. Raises OSError."""
    file = path / LINES
    if file.exists():
        os.truncate(file, file.read_bytes().rfind(b"\n") + 1)


def append(path: Path, line: object) -> None:
    """Put a line on the disk. Raises OSError, and then the file is as it was."""
    file = path / LINES
    is_new = not file.exists()
    data = documents.to_bytes(line, indent=None) + b"\n"
    size = 0 if is_new else file.stat().st_size
    try:
        with durable_files.space_named(file, len(data)), file.open("ab") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
    except OSError:
        if file.exists():
            os.truncate(file, size)
        raise
    if is_new:
        durable_files.sync_directory(path)


def members(path: Path, signatures: Iterable[str] = (SIGNATURE,)) -> list[str]:
    """Every file of a folder that its sums are of, by its name from there."""
    found = (one.relative_to(path).as_posix() for one in path.rglob("*") if not one.is_dir())
    return sorted({*found} - {SUMS, *signatures})


def sums(path: Path, signatures: Iterable[str] = (SIGNATURE,)) -> bytes:
    """What SHA256SUMS must be: as sha256sum writes it, by name."""
    rows = (f"{sha256(path / name)}  {name}\n" for name in members(path, signatures))
    return "".join(rows).encode()


def sha256(file: Path) -> str:
    """The digest of a file. Raises OSError."""
    digest = hashlib.sha256()
    with file.open("rb") as handle:
        while chunk := handle.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def seal(path: Path, verdict: Verdict) -> None:
    """Close a run: verdict, sums, signature, in this order, each whole. Raises OSError."""
    durable_files.replace(path / VERDICT, documents.to_bytes(verdict))
    content = sums(path)
    durable_files.replace(path / SUMS, content)
    signed = signature.sign(content, namespace=signature.ACCEPTANCE)
    durable_files.replace(path / SIGNATURE, signed)


def is_sealed(path: Path) -> bool:
    """Whether a run is over."""
    return (path / SIGNATURE).exists()


def runs() -> list[Path]:
    """The folders of this node's runs, the oldest first: their ids begin with a number."""
    return sorted(plan.parent for plan in ROOT.glob(f"*/{PLAN}"))


def archive(path: Path) -> bytes:
    """A tar.gz of a sealed folder, below the run's id."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name in (*members(path), SUMS, SIGNATURE):
            tar.add(path / name, f"{path.name}/{name}", recursive=False)
    return out.getvalue()
