"""``b200 judge STATE.json``: is the observed node fit to serve? 0 fit, 1 unfit, 2 not measured."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import click

from b200kit.catalog import hardware, load
from b200kit.cli.command import Command
from b200kit.node.checks.judge import judge
from b200kit.node.host import settings_table
from b200kit.node.state import expectation as expectations
from b200kit.node.state.verdict import Action, Finding, Status, Verdict, grouped
from b200kit.node.state.view import StateView, Unmeasured
from b200kit.report.terminal.topology_matrix import topology_lines

WORDS = {"fit": "fit", "unfit": "UNFIT", "unmeasured": "UNKNOWN"}
LADDER = {
    Action.RESTART_SERVICE: "restart the service",
    Action.RESET_GPU: "reset the GPU, then reboot",
    Action.REBOOT: "reboot, then power-cycle",
    Action.POWER_CYCLE: "power-cycle",
    Action.REPLACE: "replace",
    Action.MONITOR: "look at it",
}
"""What a person is told to do; each rung names the next where the first attempt often suffices."""


def expectation_for(name: str) -> dict[str, Any]:
    """An expectation from hardware data alone: any driver the hardware takes, no services.

    Clock and settings are judged, these by their defaults; nothing else is compared with what was
    asked, as nothing was.
    """
    data = hardware.load(name)
    count = data["expect"]["gpu_count"]["value"]
    return {
        "schema": expectations.SCHEMA,
        "hardware": data,
        "driver": None,
        "gpu_count": count,
        "services": [],
        "waivers": [],
        "clock_synchronized": True,
        "settings": settings_table.expected(load.load().settings, ()),
        "passport": "keep",
        "bandwidth": "off",
    }


def summary(state: object, verdict: Verdict) -> str:
    """The facts of a fit node on one line; what was not read is a question mark."""
    view = StateView(state)
    gpus = view.gpus() or []
    links = [link.number("state") for gpu in gpus for link in gpu.items("links") or []]
    fabric = all(gpu.number("fabric", "state") == 3 for gpu in gpus)
    driver = view.text("nvml", "driver_version") or "?"
    waived = f"  {verdict.counts['waived']} waived" if verdict.counts["waived"] else ""
    parts = [
        gpu_names(view),
        f"{links.count(1)}/{len(links)} links",
        f"fabric {'ok' if gpus and fabric else '?'}",
    ]
    return "  ".join([*parts, f"NUMA {numa(view)}", f"driver {driver}"]) + waived


def gpu_names(view: StateView) -> str:
    """ "8x NVIDIA B200", by the names NVML gives."""
    names = {str(gpu.text("name") or "?") for gpu in view.gpus() or []}
    return f"{len(view.gpus() or [])}x {'/'.join(sorted(names)) or '?'}"


def numa(view: StateView) -> str:
    """GPUs on each NUMA node that has any, "4+4"."""
    nodes = [gpu.number("numa_node") for gpu in view.items("pci", "gpus") or []]
    known = sorted(node for node in nodes if not isinstance(node, Unmeasured))
    return "+".join(str(known.count(node)) for node in dict.fromkeys(known)) or "?"


def advice(finding: Finding) -> str:
    """The line that says what to do, with the exact part."""
    if finding.status is Status.UNMEASURED:
        return "nothing is assumed; mend the reading, or waive it by name until a date"
    if finding.action is Action.NONE:
        return f"no reset helps; expected {finding.expected}"
    last = finding.subject.startswith("GPU") and finding.action < Action.REPLACE
    returns = f"; if it returns, replace {finding.part}" if last else ""
    part = "" if last else f" {finding.part}".rstrip()
    return f"{LADDER[finding.action]}{part}{returns}"


def told(findings: list[tuple[Finding, int]]) -> list[str]:
    """The lines of findings that ask for the same thing of the same part: it is asked once."""
    lines = [
        f.summary + (f" (and {more} more for this reason)" if more else "") for f, more in findings
    ]
    first = findings[0][0]
    if first.waiver:
        waiver = first.waiver
        return [*lines, f"waived: {waiver['reason']}, {waiver['owner']}, until {waiver['until']}"]
    lines.append(f"-> {advice(first)}")
    if first.read and first.expected:
        lines.append(
            f"read: {first.read}; expected {first.expected} ({first.source.split(':')[0]})"
        )
    return lines


def by_part(verdict: Verdict) -> list[list[tuple[Finding, int]]]:
    """What is not pass, put together by part and action, in order of urgency."""
    waived = [finding for finding in verdict.findings if finding.waiver]
    groups: dict[tuple[object, ...], list[tuple[Finding, int]]] = {}
    for finding, more in grouped([*verdict.blocking, *waived]):
        key = (finding.status, finding.action, finding.part or finding.summary, str(finding.waiver))
        groups.setdefault(key, []).append((finding, more))
    return list(groups.values())


def report(name: str, state: object, verdict: Verdict) -> str:
    """The whole verdict as a person reads it: one line for the node, then what is not pass."""
    blocks = [line for group in by_part(verdict) for line in told(group)]
    if verdict.fit == "fit":
        blocks.insert(0, summary(state, verdict))
    head = f"{name}  {WORDS[verdict.fit]:<8}"
    return head + ("\n" + " " * len(head)).join(blocks)


def read_json(path: str) -> Any:
    """A JSON file; raises OSError or ValueError."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply to be read") from error


def printable(text: str) -> str:
    """The text with a question mark for what JSON may hold and UTF-8 may not."""
    return text.encode("utf-8", "replace").decode("utf-8")


@click.command(
    "judge",
    cls=Command,
    exit_codes={0: "fit", 1: "unfit", 2: "not measured, or the file cannot be read"},
)
@click.argument("state")
@click.option(
    "--hardware", "name", default="hgx-b200", show_default=True, metavar="NAME",
    help="A hardware of the catalog.",
)  # fmt: skip
@click.option("--expect", metavar="FILE", help="An expectation instead of hardware data alone.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option("--topology", is_flag=True, help="Print the matrix of the GPUs, too.")
def command(state: str, name: str, expect: str | None, as_json: bool, topology: bool) -> int:
    """Judge the recorded node in the file STATE, a NodeState document as `observe` prints it."""
    try:
        expected = read_json(expect) if expect else expectation_for(name)
        observed = read_json(state)
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    if isinstance(expected, dict):
        expected = {"today": date.today().isoformat(), **expected}
    verdict = judge(expected, observed)
    if as_json:
        print(printable(json.dumps(verdict.to_json(), indent=2)))
        return verdict.exit_status
    print(printable(report(Path(state).stem, observed, verdict)))
    if topology:
        print("\n".join(topology_lines(observed, expected)))
    return verdict.exit_status
