"""The run as a person reads it in a terminal: one block a host, 100 columns, colour optional."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from b200kit.node.lib.redact import redact
from b200kit.report.document import clean
from b200kit.report.names import run_name
from b200kit.report.outcome import exit_code, failed_hosts, hosts_of, is_check, totals
from b200kit.report.shown import shown
from b200kit.report.terminal.check_block import check_lines
from b200kit.report.terminal.deploy_block import block
from b200kit.report.terminal.lines import WIDTH, shorten, wrap


def render(
    record: object,
    *,
    colour: bool = False,
    report: str | None = None,
    secrets: Iterable[str] = (),
) -> str:
    """Return the text for stdout: the hosts of `record`, the totals, the report, the exit code.

    `report` is the path to name in the last line (by default where `write` puts it under
    ``reports``); `secrets` are values that must not appear. Any JSON value is accepted.
    """
    known = tuple(secrets)
    return shown(record, lambda found: _text(redact(found, known), colour, report))


def _text(record: object, colour: bool, report: str | None) -> str:
    hosts = hosts_of(record)
    name_width = min(max((len(clean(name)) for name in hosts), default=0), 30)
    lines: list[str] = []
    for name, host in hosts.items():
        label = shorten(clean(name), name_width).ljust(name_width)
        lines += (
            check_lines(label, host, colour) if is_check(record) else block(label, host, colour)
        )
    where = report or f"reports/{run_name(record)}/report.html"
    return (
        "\n".join([*lines, *([""] if lines and lines[-1] else []), *_last_lines(record, where)])
        + "\n"
    )


def _last_lines(record: object, report: str) -> Iterator[str]:
    code = f"exit {exit_code(record)}"
    together = f"{totals(record)}      {clean(report)}      {code}"
    if len(together) <= WIDTH:
        yield together
    else:
        yield from wrap("", totals(record))
        yield clean(report)
        yield code
    if failed_hosts(record):
        folder = clean(report).rpartition("/")[0] or "."
        yield from wrap("", f"those not ready, for --limit: {folder}/failed.txt")
