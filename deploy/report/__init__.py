"""One writer for every outcome of a run: JSON files, a terminal table, one HTML page.

`write(record, directory)` writes ``directory/<run>/{summary.json,<host>.json,report.html,
failed.txt}`` and returns the path of report.html. `terminal(record)` returns the text for stdout.
Both take a run record ("b200kit/run/1") in any state of completeness and remove secrets first.
"""

from __future__ import annotations

from deploy.report.files import write
from deploy.report.outcome import exit_code
from deploy.report.redact import scrub
from deploy.report.terminal import terminal

__all__ = ["exit_code", "scrub", "terminal", "write"]
