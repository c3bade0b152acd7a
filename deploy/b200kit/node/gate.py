"""The gate on the node: observe, judge, and let nothing serve that is not proven fit.

Run at every boot before the serving units. It leaves its verdict in /var/lib/b200kit/verdict.json
and one line for each finding that is not pass in the journal. Exit status: 0 fit, 1 unfit, 2 not
measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from b200kit.node.checks.judge import judge
from b200kit.node.fabric.bring_up import wait
from b200kit.node.facts.observe import NVML_TIMEOUT_S, observe
from b200kit.node.host import settings_table
from b200kit.node.lib import boot_clock, documents, durable_files, timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.lib.managed_files import STATE_DIRECTORY
from b200kit.node.lib.program import claim_stdout, emit
from b200kit.node.state import advice
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Finding, GateVerdict, Verdict, grouped
from b200kit.node.state.view import View


def ask(expectation: Any) -> dict[str, Any]:
    """What the checks need read besides what is always read."""
    view = Expectation(expectation)
    units = view.known(list, "hardware", "expect", "fabric.units", "value") or []
    services = view.known(list, "services") or []
    timekeepers = view.known(list, "time_services") or []
    lockstep = view.known(list, "hardware", "expect", "driver.lockstep", "value") or []
    packages = view.known(dict, "driver", "packages") or {}
    gateway = view.known(str, "serving", "gateway")
    serving = [*(view.known(list, "serving", "replicas") or []), gateway]
    nvlsm = ["nvlsm"] if view.reading("bring_up") == "judged" else []
    return {
        "units": [str(name) for name in [*units, *services, *timekeepers, *serving] if name],
        "packages": [str(name) for name in [*lockstep, *packages, *nvlsm]],
        "placement": [*(view.known(dict, "placement") or {})],
        **settings_table.requested(view.reading("settings")),
        **parts(view),
        "disks": [*(view.known(dict, "room") or {}), *store(view.at("storage")).get("disks", [])],
    }


def parts(view: Expectation) -> dict[str, Any]:
    """Parts of the observation that are read only where the expectation speaks of them."""
    requested = {
        "firewall": None if view.known(list, "firewall") is None else True,
        "containers": view.known(list, "container_runtimes") or None,
        "logs": view.known(list, "logs", "patterns") or None,
        "weights": named(view.at("weights")),
        "certificates": view.known(dict, "certificates"),
        "automatic": watched(view),
        **store(view.at("storage")),
    }
    return {key: what for key, what in requested.items() if what is not None}


def watched(view: Expectation) -> dict[str, Any] | None:
    """What is not to be changed by anybody else, if the expectation names it."""
    units = view.known(list, "automatic", "units")
    packages = view.known(dict, "driver", "packages") or {}
    return None if units is None else {"units": units, "packages": [*packages]}


def named(view: View) -> dict[str, str] | None:
    """Which model is looked at, and where, if the expectation names one."""
    words = {key: view.reading(key) for key in ("root", "model", "revision")}
    texts = {key: word for key, word in words.items() if isinstance(word, str)}
    return texts if len(texts) == len(words) else None


def store(view: View) -> dict[str, Any]:
    """What is read of the store for models, where the expectation asks for one."""
    if view.known(dict) is None:
        return {}
    mount = view.known(str, "mount") or "/"
    return {
        "storage": {"mount": mount, "disks": view.known(list, "disks") or []},
        "files": [view.known(str, "stamp") or "/"],
        "disks": [mount],
    }


def line(finding: Finding, more: int) -> str:
    """One finding as the journal shows it."""
    also = f" (and {more} more for this reason)" if more else ""
    waiver = f", waived until {finding.waiver['until']}" if finding.waiver else ""
    todo = advice.of(finding)
    return f"{finding.status.value}: {finding.summary}{also} -> {todo}{waiver}"


def lines(verdict: Verdict) -> list[str]:
    """The verdict and every finding that is not pass."""
    counts = verdict.counts
    total, unread = sum(counts.values()), counts["unmeasured"]
    lines = [
        f"gate: {verdict.fit} ({total} findings, {counts['fail']} failed, {unread} unmeasured)"
    ]
    waived = [finding for finding in verdict.findings if finding.waiver]
    return lines + [line(finding, more) for finding, more in grouped([*verdict.blocking, *waived])]


def decide(expectation: Any, nvml_timeout: float) -> Verdict:
    """Observe this node and judge it as of today."""
    state = observe(ask(expectation), nvml_timeout)
    if isinstance(expectation, dict):
        expectation = {**expectation, "today": timestamp.today()}
    return judge(expectation, state)


def record(verdict: Verdict, path: Path) -> None:
    """Leave the verdict for the next observation; a plain user may not be able to."""
    try:
        boot_id, boot_s = boot_clock.now()
        when = timestamp.now(), boot_id, round(boot_s, 1)
        kept = GateVerdict(verdict.findings, verdict.not_applicable, *when)
        durable_files.replace(path, json.dumps(unstructure(kept)))
    except OSError as error:
        print(f"gate: the verdict could not be kept: {error}", file=sys.stderr)


def read_expectation(path: str) -> Any:
    """The expectation document; None when it cannot be read, which judge calls unmeasured."""
    try:
        return documents.read(Path(path), documents.LARGE)
    except (OSError, ValueError) as error:
        print(f"gate: expectation {path}: {error}", file=sys.stderr)
        return None


def main(args: list[str]) -> int:
    """Wait for the fabric, observe, judge, record, report."""
    parser = argparse.ArgumentParser(prog="gate")
    parser.add_argument("--expect", required=True, help="the expectation, b200kit/expect/1")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument("--deadline", type=float, default=120.0, help="seconds to wait for fabric")
    parser.add_argument("--nvml-timeout", type=float, default=NVML_TIMEOUT_S)
    options = parser.parse_args(args)
    out = claim_stdout()
    expectation = read_expectation(options.expect)
    if options.deadline > 0:
        wait(expectation, options.deadline)
    verdict = decide(expectation, options.nvml_timeout)
    record(verdict, STATE_DIRECTORY / "verdict.json")
    if options.json:
        emit(out, unstructure(verdict))
    else:
        with open(out, "w", encoding="utf-8", closefd=False) as stdout:
            stdout.write("\n".join(lines(verdict)) + "\n")
    return verdict.exit_status
