"""Writes a run's report: every file whole or not at all, and none with a secret in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from b200kit.node.lib import durable_files
from b200kit.node.lib.redact import redact
from b200kit.report.content.findings import findings_of
from b200kit.report.content.first import first_of
from b200kit.report.content.serving import serving_line
from b200kit.report.document import clean, mapping, read
from b200kit.report.html.page import render
from b200kit.report.names import host_file, run_name
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

SUMMARY = "b200kit/summary/1"


def write(record: object, directory: Path, *, secrets: Iterable[str] = ()) -> Path:
    """Write ``directory/<run>/`` and return the path of its report.html.

    Files: summary.json, one JSON a host, report.html, failed.txt. `directory` is the folder of all
    runs, or already that of this run. `secrets` are values that must appear in no file. Raises
    OSError when the folder cannot be written.
    """
    known = tuple(secrets)
    run, texts = shown(record, lambda found: _texts(mapping(redact(found, known))))
    folder = directory if directory.name == run else directory / run
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(folder / name, text)
    return folder / "report.html"


def _texts(record: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """The run's name, and the text of each file."""
    hosts = {host_file(name): _dense(host) for name, host in hosts_of(record).items()}
    return run_name(record), {
        **hosts,
        "failed.txt": "".join(f"{clean(n)}\n" for n in failed_hosts(record)),
        "report.html": render(record),
        "summary.json": _json(summary(record)),
    }


def summary(record: object) -> dict[str, object]:
    """Return summary.json: the run without its hosts' details, and its exit code."""
    run = {key: value for key, value in mapping(record).items() if key != "hosts"}
    return {
        **run,
        "schema": SUMMARY,
        "exit_code": exit_code(record),
        "totals": totals(record),
        "counts": counts(record),
        "hosts": {
            name: _host_summary(name, host) | {"exit_code": host_exit_code(record, host)}
            for name, host in hosts_of(record).items()
        },
    }


def _host_summary(name: str, host: object) -> dict[str, object]:
    known = mapping(host)
    first = first_of(host)
    blocking = [f for f in findings_of(known.get("verdict")) if f.blocks]
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
    }


def _json(value: object) -> str:
    """`value` as indented JSON, keys in their order."""
    return json.dumps(value, indent=2, ensure_ascii=True, default=str) + "\n"


def _dense(value: object) -> str:
    """`value` as JSON on one line: indented, a node's file is twice as long."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=str) + "\n"


def write_text(path: Path, text: str) -> None:
    """Replace `path` with `text` in one step, so that a reader never sees half a file."""
    durable_files.replace(path, text.encode(errors="replace"), 0o644 & ~_umask())


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
