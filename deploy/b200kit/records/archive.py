"""The archive of one node that `b200 bundle` writes and `b200 judge` reads: a tar.gz of JSON files.

    README  bundle.json  expectation.json  state.json  verdict.json

The same node gives the same layout, without times and owners of files. It is read by
b200kit/records/observed_file.py.
"""

from __future__ import annotations

import gzip
import io
import os
import secrets
import tarfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from b200kit import __version__
from b200kit.catalog import hardware
from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import unstructure
from b200kit.node.state import node_schema
from b200kit.records.sanitised import Sanitised, dumps, sanitised, texts_of, words_of
from b200kit.run.places import PACKAGE

SCHEMA = "b200kit/bundle/1"
_README = """\
One node as b200kit {version} observed it, for `b200 judge {name}`.

Replaced, the same original by the same pseudonym wherever it stood, by a key that was not kept:
{counts}
Kept: numbers, PCI addresses, kernel devices, times, versions, and words that b200kit's own sources
have. Fields that the schema of an observation does not have were left out. Read state.json and
expectation.json before you send this.
"""


@cache
def words() -> frozenset[str]:
    """The words of this program's own sources."""
    files = sorted(path for kind in ("*.py", "*.yaml") for path in PACKAGE.rglob(kind))
    return words_of(path.read_text(encoding="utf-8") for path in files)


@cache
def shipped() -> frozenset[str]:
    """The texts of the catalog's hardware."""
    return frozenset(t for name in hardware.names() for t in texts_of(hardware.load(name)))


def sanitise(state: Mapping[str, Any], expectation: object, names: Iterable[str] = ()) -> Sanitised:
    """Both documents under a key that nobody keeps."""
    key, schema = secrets.token_bytes(32), node_schema.schema()
    return sanitised(state, expectation, schema, words(), key, names, shipped())


def write(path: Path, found: Sanitised) -> None:
    """Write the archive; raises FileExistsError where something lies there, and OSError."""
    content = _packed(_files(path.name, found))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(content)


def _files(name: str, found: Sanitised) -> dict[str, str]:
    about = {"schema": SCHEMA, "b200kit": __version__, "replaced": found.counts}
    origin = {"kind": "bundle of a node's observation", **about}
    counts = "".join(f"  {count:6} {kind}\n" for kind, count in sorted(found.counts.items()))
    return {
        "README": _README.format(version=__version__, name=name, counts=counts),
        "bundle.json": dumps(about),
        "expectation.json": dumps(found.expectation),
        "state.json": dumps({**found.state, "provenance": origin}),
        "verdict.json": dumps(unstructure(judge(found.expectation, found.state))),
    }


def _packed(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as stream:  # noqa: SIM117
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, text in sorted(files.items()):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(text.encode()), 0o600
                tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()
