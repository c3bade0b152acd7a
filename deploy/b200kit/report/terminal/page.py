"""The run as a person reads it in a terminal: a line or a block a node, then the totals."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from b200kit.node.checks.bare import BARE, WITHOUT_DRIVER
from b200kit.node.lib import cpulist
from b200kit.node.lib.redact import redact
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.records.expected import WITHOUT_DEPLOYMENT
from b200kit.report.content import acceptance, facts, reprovision, run, tuning
from b200kit.report.content.nodes import (
    MOST,
    NodeGroup,
    freshness,
    good_alike,
    not_good_alike,
    whole,
)
from b200kit.report.content.topology import machine_of
from b200kit.report.content.verdict import Similar, first_of, gate_line, groups_of, verdict_of
from b200kit.report.document import clean, counted, grouped, read, show
from b200kit.report.names import run_name
from b200kit.report.outcome import (
    exit_code,
    failed_hosts,
    is_check,
    is_good,
    outcome_of,
    ranked,
    totals,
)
from b200kit.report.shown import shown
from b200kit.report.terminal import latency, records
from b200kit.report.terminal.lines import COLUMN, Lines, shorten
from b200kit.report.terminal.topology_matrix import topology_is_in_doubt, topology_lines
from b200kit.run.console import PAPER

_MOST_BLOCKS = 8
"""Good nodes of a deploy above which they are folded; a check has a line of each up to MOST."""
_SHOWN_VERSIONS = {"driver", "CUDA", "fabric manager", "engine"}
_LABEL = 9


def lines(
    record: object,
    *,
    width: int = PAPER,
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

    def view(found: object) -> list[str]:
        page = Lines(width, colour)
        _run(page, redact(found, known), report, all_whole, matrix)
        return page.found

    return shown(record, view)


def _run(page: Lines, record: object, report: str | None, all_whole: bool, matrix: bool) -> None:
    hosts, check = ranked(record), is_check(record)
    good = {name: host for name, host in hosts.items() if is_good(host)}
    bad = {name: host for name, host in hosts.items() if name not in good}
    many = len(hosts) > MOST or len(good) > (MOST if check else _MOST_BLOCKS)
    fold = many and not all_whole
    chosen = hosts if all_whole else whole(hosts)
    listed = {clean(name): hosts[name] for name in chosen if name in bad or not fold}
    columns = min(max(map(len, listed), default=0), page.names)
    for name, host in listed.items():
        label = shorten(name, columns).ljust(columns)
        check_lines(page, label, host, matrix=matrix) if check else _deployed(page, label, host)
    for alike in not_good_alike({name: host for name, host in bad.items() if name not in chosen}):
        _alike(page, alike)
        page.action(2, alike.action)
        page.hang("  serving  ", text=alike.serving)
        page.line("")
    for alike in good_alike(good) if fold else ():
        _alike(page, alike)
        for figure in alike.figures:
            page.hang("  ", text=figure)
    if page.found and page.found[-1]:
        page.line("")
    where = f"reports/{run_name(record)}/report.html" if report is None else report
    code = f"exit {exit_code(record)}"
    last = [text for text in (totals(record), freshness(record), clean(where), code) if text]
    together = "      ".join(last)
    for text in [together] if len(together) <= page.width else last:
        page.whole(text) if text == clean(where) else page.hang("", text=text)
    if where and failed_hosts(record):
        folder = clean(where).rpartition("/")[0] or "."
        page.whole(f"these again: {run.asked_of(record).again} $(cat {folder}/failed.txt)")
    explain_line(page, listed.values())


def explain_line(page: Lines, hosts: Iterable[object]) -> None:
    """Where to read about the first finding that is shown, or about why nothing was looked at."""
    codes = (one.check for host in hosts for one in verdict_of(host).findings if one.blocks)
    told = (read(host, "cause") for host in hosts)
    causes = (clean(cause) for cause in told if isinstance(cause, str))
    if code := next((code for code in chain(codes, causes) if code), ""):
        page.hang("", text=f"what that means: b200 explain {code}")


def _alike(page: Lines, alike: NodeGroup) -> None:
    page.head(counted(alike.count, "node"), alike.outcome, alike.text)
    page.hang("  ", text=alike.names)


def check_lines(page: Lines, name: str, host: object, *, matrix: bool = False) -> None:
    """Add a judged host: one line if fit, what blocks it if not; its `matrix` on request.

    Where the GPUs' connections are at fault, or were not all read, their matrix follows.
    """
    verdict, outcome, indent = verdict_of(host), outcome_of(host), min(len(name), page.names) + 2
    passed = [f for f in verdict.findings if f.status is Status.PASS]
    if is_good(host):
        notes = [f.summary for f in passed if f.action is Action.MONITOR]
        ready = outcome.word == "ready"
        short = [f"{len(passed)} checks", *notes] if ready else facts.facts_in_short(host)
        room = page.width - len(name) - max(len(outcome.label), 7) - 4
        in_one = "  ".join(short)
        fits = len(in_one) <= room
        page.head(
            name, outcome, in_one if fits else "; ".join(short), run.took(host) if fits else ""
        )
        _findings(page, host, indent)
    else:
        _first(page, name, host)
    if text := acceptance.line(host):
        page.hang(" " * indent, text=text)
    reasons = [*verdict.not_applicable.values()]
    without = [
        f"{counted(reasons.count(why), 'check')} {why}"
        for why in (WITHOUT_DEPLOYMENT, WITHOUT_DRIVER)
        if why in reasons
    ]
    if without:
        hardware = show(read(host, "expectation", "hardware", "name"))
        text = "; ".join([f"{len(passed)} passed", *without])
        page.hang(" " * indent, text=f"as {hardware}: {text}")
    judged = outcome.word not in ("ready", "not ready", BARE) and not is_good(host)
    matrix = matrix and outcome.word != BARE
    if facts.observed(host) and (matrix or judged):
        graph = machine_of(host).graph
        if matrix or topology_is_in_doubt(graph):
            topology_lines(page, graph)


def _first(page: Lines, name: str, host: object) -> None:
    """What is wrong, below it what to do, who serves, and then all that was found."""
    first, indent = first_of(host), min(len(name), page.names) + 2
    page.head(name, outcome_of(host), first.cause)
    page.action(indent + _LABEL, first.action)
    page.hang(f"{' ' * indent}{'serving':<{_LABEL}}", text=first.serving)
    _findings(page, host, indent, above=first.finding)


def _findings(page: Lines, host: object, indent: int, above: Finding | None = None) -> None:
    """What did not pass: status, finding, what to do, then what is alike and the evidence.

    *above* is the finding that stands above already, with its action.
    """
    for group in groups_of(verdict_of(host)):
        _group(page, group, indent, above)


def _group(page: Lines, group: list[Similar], indent: int, above: Finding | None) -> None:
    head, *more = group
    start, pad = " " * indent, " " * (indent + _LABEL)
    unread = head.finding.status is Status.UNMEASURED
    if head.finding != above:
        word = "unknown" if unread else head.finding.status.value
        page.hang(start, (word, head.tone), " " * (_LABEL - len(word)), text=head.finding.summary)
        page.action(len(pad), head.advice)
    rest = [head.also, *("; ".join(filter(None, (s.finding.summary, s.also))) for s in more)]
    for place, text in enumerate(filter(None, rest)):
        page.hang(pad if place else f"{start}{'also':<{_LABEL}}", text=text)
    waived = head.finding.status is Status.WAIVED
    for text, alike in grouped(() if waived else group, lambda one: one.evidence).items():
        codes = ", ".join(dict.fromkeys(one.finding.check for one in alike if one.finding.check))
        page.hang(pad, text=f"{codes}  {text}" if codes else text)


def _deployed(page: Lines, name: str, host: object) -> None:
    """The block of one host of a deploy: what is wrong and what to do about it, the node, what it
    serves and how fast; the run's own figures last.
    """
    outcome = outcome_of(host)
    if is_good(host):
        page.head(name, outcome)
        page.facts(facts.endpoint(host, clean(name)))
        _findings(page, host, 2)
    else:
        _first(page, name, host)
    graph = machine_of(host).graph
    if facts.observed(host) and outcome.word != "removed":
        page.facts(facts.machine(host, graph))
        for i, line in enumerate(facts.numa_lines(host, graph)):
            page.fact("" if i else "NUMA", line)
        shown = [f"{name} {text}" for name, text in facts.versions(host) if name in _SHOWN_VERSIONS]
        page.fact("versions", "; ".join(shown))
        page.fact("gate", gate_line(host))
    elif outcome.word not in ("unreachable", "not reached", "removed"):
        page.fact("node", facts.NO_STATE)
    _layout(page, host)
    if read(host, "smoke") not in (None, {}) or outcome.word == "live":
        latency.block(page, host)
    records.block(page, host)
    for label, text in (("tuning", tuning.line(host)), reprovision.line(host)):
        if text:
            page.fact(label, text)
    _stages(page, host)
    if text := run.done(host):
        page.fact("run", text)
    page.line("")


def _layout(page: Lines, host: object) -> None:
    rows = facts.layout(host)
    if not rows:
        return
    above = len(page.found)
    page.table([facts.LAYOUT, *rows], left=COLUMN, right=frozenset())
    page.found[above] = f"{'  replicas':<{COLUMN}}{page.found[above][COLUMN:]}"
    try:
        shared = cpulist.repeated([row[3] for row in rows])
    except ValueError:
        shared = ""
    if shared:
        page.fact("", f"CPUs {shared} serve more than one replica: too few cores for each")


def _stages(page: Lines, host: object) -> None:
    """The stages that did something; those that found nothing to do share one line."""
    quiet, label = [], "stages"
    for stage in run.stages(host):
        if stage.status in ("ok", "skipped"):
            quiet.append(stage.name if stage.status == "ok" else f"{stage.name} (skipped)")
            continue
        changes = counted(len(stage.changes), "change") if stage.changes else ""
        word = "" if stage.status == "changed" and (changes or stage.detail) else stage.status
        text = ", ".join(filter(None, (word, changes, stage.detail)))
        head = f"{f'  {label}':<{COLUMN}}{shorten(stage.name, 20):<14}  "
        page.hang(head, text=text, end=stage.took)
        label = ""
    if quiet:
        page.fact("unchanged", ", ".join(quiet))
