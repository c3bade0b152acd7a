"""A node that a real Prometheus scrapes: a real HAProxy, two engines, and pages that are made here.

The engines give the stand-in's metrics; the pages are written by the node's own code.
tests/e2e/site/test_monitoring.py has a node that serves.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.monitoring.targets import MonitoredNode
from b200kit.node.agent.evidence import Now, issue
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.state.proof import KINDS, PASS, NodeProof, ProofEvidence, ProofRules, ServingNow
from b200kit.node.state.verdict import Finding
from b200kit.node.state.watch import NodeFault
from b200kit.node.state.watchdog import LastStep
from b200kit.node.status import metrics
from b200kit.node.status.metrics import MetricsInput, families
from tests.lab.standin.engine import Metrics
from tests.prometheus import TARGETS, Monitoring, monitoring, until
from tests.unit.gateway import test_metrics as endpoints
from tests.unit.node.status import test_metrics as nodes

NODE = "n01"
DECADES_S = 2e9
"""For how long the gate of a node that is well holds."""
WELL = {"index": 0, "temperature_c": 40, "power_usage_mw": 7, "sm_clock_mhz": 9}
GPUS = ({**WELL, "ecc_volatile_uncorrected": 0},)
TTFT, ITL = "time_to_first_token_seconds", "inter_token_latency_seconds"
USUAL = {TTFT: 0.03, ITL: 0.005}
"""Seconds, well within the record of the node."""
FAILING = "/v1/models?fail"


class Engine(endpoints.Engine):
    """Has answered one request more at every scrape; fails where it is asked to."""

    counts = Metrics("m")
    metrics_are_there = True

    def do_GET(self) -> None:
        """Its metrics, or an answer to a client."""
        body, status = b"{}", 500 if self.path == FAILING else 200
        if self.path == "/metrics":
            for metric, usual in USUAL.items():
                self.counts.observe(metric, usual)
            body, status = self.counts.text().encode(), 200 if self.metrics_are_there else 500
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # a check of the gateway reads no answer
            self.wfile.write(body)


@dataclass
class Monitored:
    """The page of a node, what reads it, and where clients ask."""

    by: Monitoring
    page: Path
    gateway: str

    def tell(self, **changes: Any) -> None:
        """Write the page of a node that is well, but for some of what it knows, of this moment."""
        moment = changes.pop("moment", Moment("b", 100.0))
        known = replace(well(time.time()), moment=moment)
        assert known.state
        noted = {name: changes.pop(name) for name in vars(known.state.notes) if name in changes}
        notes = replace(known.state.notes, **noted)
        state = replace(known.state, notes=notes, **changes)
        self.write(metrics.text(families(replace(known, state=state))))

    def write(self, text: str) -> None:
        """The page, as it is."""
        _replace(self.page, text)

    def is_well(self) -> bool:
        """It was read, and nothing fires."""
        return bool(self.by.query("b200_node_in_service == 1")) and not self.by.firing()

    def observe(self, metric: str, seconds: float, times: int) -> None:
        """The engines have answered so many requests more."""
        for _ in range(times):
            Engine.counts.observe(metric, seconds)

    def ask(self, path: str, times: int) -> None:
        """So many requests of a client."""
        for _ in range(times):
            asked = urllib.request.Request(
                self.gateway + path, headers={"Authorization": "Bearer node-key"}
            )
            with contextlib.suppress(urllib.error.HTTPError):
                urllib.request.urlopen(asked, timeout=20).close()

    def targets(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give Prometheus other targets; those that it had."""
        place = self.by.folder / TARGETS
        before: list[dict[str, Any]] = json.loads(place.read_text())
        _replace(place, json.dumps(found))
        return before


def _replace(path: Path, text: str) -> None:
    """In one step: it may be read at any moment."""
    whole = path.with_suffix(".new")
    whole.write_text(text)
    whole.replace(path)


def well(now: float) -> MetricsInput:
    """A node that serves under a proof."""
    last = LastStep(stamp(now))
    return replace(
        nodes.known(
            watch=nodes.looked(gpus=GPUS), health_checks={"success": 9, "timeout": 0}, boot_s=100.0,
            watchdog={str(n): nodes.standing(last=last) for n in (0, 1)}, proof=proven(now),
        ), now=now,
    )  # fmt: skip


def proven(now: float, age_s: float = 0.0) -> NodeProof:
    """A proof by a gate that was so old then."""
    gate = ProofEvidence("gate", PASS, taken_at=stamp(now - age_s))
    rules = ProofRules("n01", dict.fromkeys(KINDS, DECADES_S), ["gate"])
    return issue(None, [gate], ServingNow((0, 1), 8), Now("b", 100.0, now), rules)


def stamp(seconds: float) -> str:
    """A moment as the node's documents have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def fault(check: str) -> dict[str, Any]:
    """A look that found a fault which counts, and touches no replica."""
    finding = replace(nodes.LINK, check=check)
    found = NodeFault(Finding(**vars(finding)), (0,), nodes.AT, ("fault",), confirmed=True)
    return {"watch": nodes.looked(gpus=GPUS, faults=(found,))}


def standing(**changes: Any) -> dict[str, Any]:
    """What is remembered of replicas, with a replica 0 that is out."""
    last = LastStep(stamp(time.time()))
    out = nodes.standing(out=True, last=last, **changes)
    return {"watchdog": {"0": out, "1": nodes.standing(last=last)}}


@contextmanager
def monitored(folder: Path) -> Iterator[Monitored]:
    """Scraped four times a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endpoints, "FILE", folder / "metrics.prom")
        patch.setattr(endpoints, "Engine", Engine)
        for node in endpoints.serving(folder, ("127.0.0.0/8",)):
            member = MonitoredNode(NODE, "127.0.0.1", "node", (), node.port, replicas=2)
            with monitoring(folder, [member], "250ms") as by:
                found = Monitored(by, folder / "metrics.prom", node.url)
                found.tell()
                # Where a node that is well is none, no case says anything: one failure, at once.
                until(found.is_well, said=by.firing)
                yield found
