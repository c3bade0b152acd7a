"""Writes a run's report: every file whole or not at all, and none with a secret in it.

A node's record is read, written and left before the next one: of many nodes only what stands beside
others stays in memory.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from functools import partial
from gzip import BadGzipFile
from pathlib import Path
from typing import Any

from b200kit.node.lib import durable_files
from b200kit.node.lib.documents import LARGE, Malformed, parse
from b200kit.node.lib.redact import Redactor
from b200kit.report.content.nodes import exceptions, in_short, proven, whole
from b200kit.report.content.verdict import first_of, serving_line, verdict_of
from b200kit.report.document import clean, mapping, read
from b200kit.report.html.page import render
from b200kit.report.names import host_file, host_page, run_name
from b200kit.report.outcome import (
    counts,
    exit_code,
    failed_hosts,
    host_exit_code,
    hosts_of,
    outcome_of,
    totals,
)
from b200kit.report.shown import shown
from b200kit.run.document import FinishedHost

SUMMARY = "b200kit/summary/1"
_NO_SECRETS = Redactor((), shortest=1)
"""None is known by its value; what looks like one is taken out."""
_LEVEL = 1
"""Of gzip: 173 kB of a node become 26 kB, in 60 % of the time of the usual 6 (measured)."""


Hosts = Iterable[tuple[str, object]]
"""HostRecords, or each as it was finished."""


def write_hosts(
    record: object, hosts: Hosts, directory: Path, *, secrets: Iterable[str] = ()
) -> tuple[Path, dict[str, object]]:
    """Write ``directory/<run>/``; returns the path of its report.html, and what is shown there.

    Files: summary.json, one JSON a host (gzip), report.html, failed.txt; of a run with many nodes
    also a page for those that are not well. `directory` is the folder of all runs, or already that
    of this run. `secrets` are values that must appear in no file. Hosts come one by one; in what is
    returned they are whole in a small run, and of a large one those that are shown whole. Raises
    OSError when the folder cannot be written.
    """
    redactor = Redactor((secret.encode() for secret in secrets), shortest=1)
    run = mapping(redactor.document({**mapping(record), "hosts": {}}))
    folder = directory if directory.name == run_name(run) else directory / run_name(run)
    folder.mkdir(parents=True, exist_ok=True)
    brief: dict[str, object] = {}
    for raw, host in hosts:
        name = redactor.text(raw)
        done = host if isinstance(host, FinishedHost) else finished(host, redactor)
        brief[name] = done.in_short
        durable_files.replace(folder / host_file(name), done.content, 0o644 & ~_umask())
    pages = _write_pages(run, exceptions(brief), folder)
    full = {name: stored(folder / host_file(name)) for name in whole(brief)}
    found = {**run, "hosts": {**brief, **full}}
    for name, text in shown(found, partial(_texts, pages)).items():
        write_text(folder / name, text)
    return folder / "report.html", found


def stored(path: Path) -> Any:
    """A document of a report; raises OSError, and ValueError for what is no JSON."""
    try:
        content = path.read_bytes()
        return parse(gzip.decompress(content) if path.suffix == ".gz" else content, LARGE)
    except (Malformed, EOFError, zlib.error, BadGzipFile) as error:
        raise ValueError(f"{path}: {error}") from None


def finished(host: object, redactor: Redactor = _NO_SECRETS) -> FinishedHost:
    """Of a HostRecord what stays in memory, and its file."""
    return shown({"hosts": {"": host}}, partial(_of_host, redactor))


def _of_host(redactor: Redactor, record: object) -> FinishedHost:
    host = redactor.document(next(iter(hosts_of(record).values())))
    # On one line: indented, a node's file is twice as long.
    text = json.dumps(host, ensure_ascii=True, separators=(",", ":"), default=str) + "\n"
    content = gzip.compress(text.encode(errors="replace"), _LEVEL, mtime=0)
    return FinishedHost(in_short(host), content)


def _write_pages(run: Mapping[str, object], names: Iterable[str], folder: Path) -> dict[str, str]:
    """A page for each node; returns its file by the node's name."""
    pages = {name: host_page(name) for name in names}
    for name, page in pages.items():
        hosts = {name: stored(folder / host_file(name))}
        write_text(folder / page, render({**run, "hosts": hosts}))
    return pages


def _texts(pages: Mapping[str, str], record: object) -> dict[str, str]:
    """The text of each file about the run as a whole."""
    return {
        "failed.txt": "".join(f"{clean(n)}\n" for n in failed_hosts(record)),
        "report.html": render(record, pages),
        "summary.json": json.dumps(summary(record), indent=2, default=str) + "\n",
    }


def summary(record: object) -> dict[str, object]:
    """Return summary.json: the run, its hosts in short, and its exit code."""
    run = {key: value for key, value in mapping(record).items() if key != "hosts"}
    return {
        **run,
        "schema": SUMMARY,
        "exit_code": exit_code(record),
        "totals": totals(record),
        "proof_freshness": proven(record),
        "counts": counts(record),
        "hosts": {
            name: _host_summary(name, host) | {"exit_code": host_exit_code(record, host)}
            for name, host in hosts_of(record).items()
        },
    }


def _host_summary(name: str, host: object) -> dict[str, object]:
    known = mapping(host)
    first = first_of(host)
    blocking = [f for f in verdict_of(host).findings if f.blocks]
    return {
        "outcome": outcome_of(host).word,
        "label": outcome_of(host).label,
        "fit": fit if isinstance(fit := read(known.get("verdict"), "fit"), str) else None,
        "file": host_file(name),
        **{key: known.get(key) for key in ("stage", "error", "commands", "changes")},
        "cause": first.cause or None,
        "action": first.action or None,
        "serving": serving_line(host),
        "blocking": [{"check": f.check, "summary": f.summary} for f in blocking],
        "in_short": in_short(host),
    }


def write_text(path: Path, text: str) -> None:
    """Replace `path` with `text` in one step, so that a reader never sees half a file."""
    durable_files.replace(path, text.encode(errors="replace"), 0o644 & ~_umask())


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
