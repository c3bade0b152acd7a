"""One health check at a node that serves, by the judge that let it serve.

Nothing is acted on here: a health check says which faults are confirmed and which replicas each of
them touches, and the agent, which has the gateway, takes those out. Planned work is no fault:
nothing is found on a quarantined node, nor while no replica runs. One that is on trial is judged,
as its proof is what it returns by.

The agent keeps one process for its health checks (`_health-check`): it may hang, and is ended at
the deadline.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from b200kit.node.checks.judge import judge_vetted
from b200kit.node.facts.observe import NVML_TIMEOUT_S
from b200kit.node.facts.resident import Resident
from b200kit.node.gate import ask, read_expectation
from b200kit.node.lib import boot_clock, documents, timestamp
from b200kit.node.lib.program import claim_stdout, emit
from b200kit.node.state import drift, growth, quarantine, watch
from b200kit.node.state.event import Remediation
from b200kit.node.state.serving import ServedReplica, Serving
from b200kit.node.state.verdict import Finding, Fit, Status, Verdict
from b200kit.node.state.view import StateView, View
from b200kit.node.state.watch import HealthCheck

# All else of a GPU is judged, and a fault where it is wrong.
_READINGS = ("index", "temperature_c", "power_usage_mw", "sm_clock_mhz", "ecc_volatile_uncorrected")
_AT_THE_GATE = {"inforom_valid": "inforom.valid"}
"""Readings too dear for each health check, with their checks: 70 of an H100's 96 ms of NVML calls.
They are read where a node is let serve, and by `b200 check`."""
_RUNNING = "serving.running"
"""Of a unit: a replica, or the gateway."""
_GPU = re.compile(r"\bGPU [0-9]+\b")
_ADDRESS = re.compile(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", re.IGNORECASE)


@dataclass(frozen=True)
class HealthCheckRequest:
    """*before*: the last health check of this boot, for the faults that it has seen."""

    fresh: bool = False
    before: HealthCheck | None = None


def touched(
    finding: Finding, state: object, replicas: Sequence[ServedReplica], takes_out: Collection[str]
) -> tuple[int, ...]:
    """The replicas that the finding names, or a GPU of which it names.

    A pair of GPUs matters to the replica that has both. Where it names none they are all, if its
    check is one that *takes_out*, or found the gateway before them; else none: it is only reported.
    A GPU that is gone has no name: it is the one of the passport that is not listed any more.
    """
    if own := [one.index for one in replicas if one.unit == finding.subject]:
        return tuple(own)
    named = named_gpus(state)
    groups = [_named_in(words, named) for words in finding.subjects]
    if not any(groups):
        words, takes = f"{finding.subject} {finding.part}", watch.is_named(finding, takes_out)
        groups = [{u} for u in _named_in(words, named) or (lost_gpus(state) if takes else ())]
        if not groups and (takes or finding.check == _RUNNING):
            return tuple(one.index for one in replicas)
    return tuple(one.index for one in replicas if any(g and g <= {*one.uuids} for g in groups))


def _named_in(words: str, named: Mapping[str, str]) -> set[str]:
    """UUIDs of the GPUs that a text names."""
    names = [*_GPU.findall(words), *map(_short, _ADDRESS.findall(words))]
    return {named[name] for name in names if name in named}


def named_gpus(state: object) -> dict[str, str]:
    """UUID of every GPU that NVML lists by "GPU 2" and by its PCI address."""
    names: dict[str, str] = {}
    for gpu in StateView(state).known_gpus:
        uuid = gpu.known(str, "uuid")
        if uuid is not None:
            names[gpu.subject] = names[_short(str(gpu.reading("pci_address")))] = uuid
    return names


def lost_gpus(state: object) -> set[str]:
    """UUIDs of the passport that NVML does not list; none where it lists nothing at all."""
    view = StateView(state)
    accepted = view.known(dict, "notes", "passport", "gpus")
    if accepted is None or view.known(list, "gpus") is None:
        return set()
    known = {str(entry.get("uuid")) for entry in accepted.values() if isinstance(entry, dict)}
    return known - {gpu.known(str, "uuid") for gpu in view.gpus}


def _short(address: str) -> str:
    """NVML writes a PCI domain with eight digits, the kernel with four."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def is_running(state: object, units: Sequence[str]) -> bool:
    """Whether one of the replicas runs."""
    return any(StateView(state).reading("units", unit, "active") == "active" for unit in units)


def of_bandwidth(verdict: Verdict) -> Status:
    """What a judgement says of the bandwidth: pass, fail, or unmeasured."""
    found = [f.status for f in verdict.findings if f.check.startswith("bandwidth.") and f.blocks]
    return Status.FAIL if Status.FAIL in found else (*found, Status.PASS)[0]


def of_serving(verdict: Verdict, aside: Collection[str]) -> Fit:
    """Whether all that still serves is fit: faults that touch nothing of it are set aside."""
    return Verdict(tuple(f for f in verdict.findings if watch.key(f) not in aside)).fit


def is_quarantined(state: object) -> bool:
    """Whether somebody took the node out; a mark that cannot be read clears no fault."""
    return StateView(state).known(dict, "notes", "quarantine") is not None


def is_on_trial(state: object) -> bool:
    """Whether what serves is to be proven before the node returns; nothing else is found of it."""
    view = StateView(state)
    boot_id, uptime_s = view.reading("host", "boot_id"), view.reading("host", "uptime_s")
    mark = quarantine.mark_of(view.reading("notes", "quarantine"))
    return mark.open_trial(boot_id, uptime_s) is not None


def gpu_readings(state: object) -> tuple[dict[str, int], ...]:
    """What changes with the load, of each GPU, for the metrics; what was not read is left out."""
    every = [{k: gpu.known(int, k) for k in _READINGS} for gpu in StateView(state).known_gpus]
    return tuple({k: v for k, v in one.items() if v is not None} for one in every)


def certificate_ends(state: object, asked: Iterable[str]) -> dict[str, str]:
    """Each file of certificates to when they end, for the metrics; "" where that was not read."""
    view = StateView(state)
    return {path: view.known(str, "certificates", path, "ends") or "" for path in asked}


def restarts(unit: str) -> str:
    """What lies on a node while a replica is to be restarted with what was just laid down."""
    return drift.pending_marker(f"restart:{unit}")


def as_planned(expectation: Any, state: Mapping[str, object]) -> Any:
    """What is judged today: a replica still to be restarted runs where it was put before."""
    if not expectation:
        return expectation
    pins = {
        unit: pinned
        for unit, pinned in (expectation.get("placement") or {}).items()
        if not drift.is_present(restarts(unit), state)
    }
    known: dict[str, Any] = {"placement": pins} if "placement" in expectation else {}
    hardware = View(expectation).known(dict, "hardware") or {}
    if isinstance(table := hardware.get("not_applicable", {}), dict):
        left_out = {**table, **dict.fromkeys(_AT_THE_GATE.values(), "read at the gate")}
        known["hardware"] = {**hardware, "not_applicable": left_out}
    return {**expectation, **known, "today": timestamp.today()}


def asked(finding: Finding) -> dict[str, str]:
    """What a confirmed fault asks for, by the one ladder; nobody has done it yet."""
    about = {"check": finding.check, "subject": finding.subject}
    return {**about, **asdict(Remediation.of(finding))}


@dataclass
class HealthChecks:
    """Looks at one node, one after the other. *before*: the last one of this boot."""

    expectation: Any
    serving: Serving
    before: HealthCheck | None = None
    nvml_timeout: float = NVML_TIMEOUT_S

    def __post_init__(self) -> None:
        units = [replica.unit for replica in self.serving.replicas]
        requested = ask(self.expectation)
        requested.pop("automatic", None)  # asked at the gate and by a run
        self.certificates = [*requested.get("certificates", ())]
        more = {
            "units": [*requested["units"], *units],
            "files": [*requested.get("files", []), *map(restarts, units)],
        }
        self.node = Resident({**requested, **more}, self.nvml_timeout, (*_AT_THE_GATE,))

    def once(self, fresh: bool = False) -> HealthCheck:
        """One health check. *fresh*: read everything, without cached values.

        That is done, too, unless the last check found the node fit and without a fault: a reading
        that failed while the node booted must not stay in the cache.
        """
        began = boot_clock.seconds()
        before = self.before
        may_use_cache = before is not None and before.fit == "fit" and not before.faults
        state = self.node.observe(fresh or not may_use_cache)
        self.before = self.judged(state, before, began)
        return self.before

    def judged(
        self, state: dict[str, Any], before: HealthCheck | None, began: float
    ) -> HealthCheck:
        """What is remembered of a health check that began so many seconds after the boot."""
        counters = growth.after(before.counters if before else None, state, began)
        state |= {"growth": documents.unstructure(counters.growth)} if counters.growth else {}
        at, in_service, on_trial = timestamp.now(), not is_quarantined(state), is_on_trial(state)
        known = before.faults if before and in_service else ()
        replicas, plan = self.serving.replicas, self.serving.watchdog
        running = tuple(one.index for one in replicas if is_running(state, [one.unit]))
        faults, verdict, takes_out = known, None, plan.takes_out
        if running and (in_service or on_trial):
            verdict = judge_vetted(as_planned(self.expectation, state), state)
        if in_service and verdict:

            def touches(finding: Finding) -> tuple[int, ...]:
                return touched(finding, state, replicas, takes_out)

            faults = watch.looked(known, verdict, touches, plan.health_rules, at)
        aside = watch.set_aside(faults, takes_out)
        return HealthCheck(
            taken_at=at,
            boot_s=round(began, 1),
            took_s=round(boot_clock.seconds() - began, 2),
            in_service=in_service,
            on_trial=on_trial,
            running=running,
            fit=verdict.fit if verdict else None,
            set_aside=tuple(sorted(aside)),
            fit_serving=of_serving(verdict, aside) if verdict else None,
            bandwidth=of_bandwidth(verdict) if verdict else None,
            gpus=gpu_readings(state),
            certificates=certificate_ends(state, self.certificates),
            counters=counters,
            faults=faults,
            remediation=tuple(asked(fault.finding) for fault in faults if fault.confirmed),
        )


def judged_by(paths: Sequence[str]) -> Any:
    """All that the node is judged by while it serves; None where a part of it cannot be read."""
    parts = [read_expectation(path) for path in paths]
    if not all(isinstance(part, dict) for part in parts):
        return None
    return {key: value for part in parts for key, value in part.items()}


def main(args: list[str]) -> int:
    """`_health-check --expect FILE ... --serving FILE`: a health check for each line of stdin, a
    line of JSON each.

    A line says whether everything is to be read anew, and what the health check before left; of
    that only the first line's is taken. Ends with its stdin, and after a health check in which NVML
    did not return.
    """
    parser = argparse.ArgumentParser(prog="_health-check", description=__doc__)
    parser.add_argument("--expect", required=True, action="append", help="b200kit/expect/1")
    parser.add_argument("--serving", type=Path, required=True, help="serving.json")
    options = parser.parse_args(args)
    answers = claim_stdout()
    looks = HealthChecks(judged_by(options.expect), documents.load(Serving, options.serving))
    for line in sys.stdin.buffer:
        asked_for = documents.decode(HealthCheckRequest, line, HealthCheck.most_bytes)
        looks.before = looks.before or asked_for.before
        emit(answers, documents.unstructure(looks.once(asked_for.fresh)))
        if looks.node.stuck:
            os._exit(0)
    return 0
