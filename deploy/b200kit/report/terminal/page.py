"""The run as a person reads it in a terminal: one block a host, 100 columns, colour optional."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from b200kit.node.lib.redact import redact
from b200kit.report.content.alike import MOST, whole
from b200kit.report.content.proof import freshness
from b200kit.report.document import clean
from b200kit.report.names import run_name
from b200kit.report.outcome import exit_code, failed_hosts, is_check, is_good, ranked, totals
from b200kit.report.shown import shown
from b200kit.report.terminal.check_block import check_lines
from b200kit.report.terminal.deploy_block import block
from b200kit.report.terminal.lines import WIDTH, shorten, wrap
from b200kit.report.terminal.many import brief, folded

_MOST_BLOCKS = 8
"""Good nodes of a deploy above which they are folded; a check has a line of each up to MOST."""


def lines(
    record: object,
    *,
    colour: bool = False,
    report: str | None = None,
    secrets: Iterable[str] = (),
    all_whole: bool = False,
    matrix: bool = False,
) -> list[str]:
    """Return the lines for stdout: the hosts of `record`, the totals, the report, the exit code.

    Hosts that are bad stand first, then those not measured, then the others, of which many are
    folded unless `all_whole`. `report` is the path to name in the last line (by
    default where `write` puts it under ``reports``), "" where there is none; `secrets` are values
    that must not appear; with `matrix` a check shows the GPUs of every node.
    Any JSON value is accepted.
    """
    known = tuple(secrets)
    return shown(
        record, lambda found: _lines(redact(found, known), colour, report, all_whole, matrix)
    )


def _lines(
    record: object, colour: bool, report: str | None, all_whole: bool, matrix: bool
) -> list[str]:
    hosts, check = ranked(record), is_check(record)
    good = {name: host for name, host in hosts.items() if is_good(host)}
    bad = {name: host for name, host in hosts.items() if name not in good}
    many = len(hosts) > MOST or len(good) > (MOST if check else _MOST_BLOCKS)
    fold = many and not all_whole
    chosen = hosts if all_whole else whole(hosts)
    listed = [name for name in chosen if name in bad or not fold]
    name_width = min(max((len(clean(name)) for name in listed), default=0), 30)
    found: list[str] = []
    for name in listed:
        label, host = shorten(clean(name), name_width).ljust(name_width), hosts[name]
        found += (
            check_lines(label, host, colour, matrix=matrix) if check else block(label, host, colour)
        )
    found += brief({name: host for name, host in bad.items() if name not in listed}, colour)
    found += folded(good, colour) if fold else ()
    where = f"reports/{run_name(record)}/report.html" if report is None else report
    return [*found, *([""] if found and found[-1] else []), *_last_lines(record, where)]


def _last_lines(record: object, report: str) -> Iterator[str]:
    code = f"exit {exit_code(record)}"
    fresh = freshness(record)
    together = "      ".join(filter(None, (totals(record), fresh, clean(report), code)))
    if len(together) <= WIDTH:
        yield together
    else:
        yield from wrap("", totals(record))
        yield from wrap("", fresh) if fresh else ()
        yield from filter(None, (clean(report), code))
    if report and failed_hosts(record):
        folder = clean(report).rpartition("/")[0] or "."
        yield from wrap("", f"those not ready, for --limit: {folder}/failed.txt")
