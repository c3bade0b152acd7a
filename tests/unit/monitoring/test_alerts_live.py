"""Each alert comes by its fault and goes with it: a real Prometheus and Alertmanager, receivers.

Delays are left out, so that only what is true now counts; test_rules.py has them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from b200kit.node.lib.boot_clock import Moment
from b200kit.node.state.watchdog import ProbeOutcome
from tests.prometheus import Sent, until
from tests.unit.monitoring.monitored import (
    DECADES_S,
    FAILING,
    GPUS,
    ITL,
    TTFT,
    USUAL,
    Engine,
    Monitored,
    fault,
    proven,
    standing,
)
from tests.unit.monitoring.test_rules import ALERTS
from tests.unit.node.status import test_metrics as nodes

Act = Callable[[Monitored], object]
PAGE, TICKET = "b200-page", "b200-ticket"
ENDED = "2026-01-01T00:00:00Z"
_RECEIVER = {"page": PAGE, "ticket": TICKET}


@dataclass(frozen=True)
class Case:
    """How it begins and ends, and which alerts there are in between."""

    alerts: tuple[str, ...]
    begin: Act
    end: Act = Monitored.tell


def on_page(*alerts: str, **changes: Any) -> Case:
    """Something that the node's own page says."""
    return Case(alerts, lambda node: node.tell(**changes))


def out(alert: str, found: ProbeOutcome) -> Case:
    """A replica that is out; the other was probed when the case begins."""
    return Case((alert,), lambda node: node.tell(**standing(found=found.value)))


def slow(alert: str, metric: str, seconds: float) -> Case:
    """A part of the requests; many that are not end it, long before it leaves the window."""
    return Case(
        (alert,),
        lambda node: node.observe(metric, seconds, 600),
        lambda node: node.observe(metric, USUAL[metric], 100_000),
    )


def without_targets() -> Case:
    """Nobody is scraped."""
    kept: list[dict[str, Any]] = []
    return Case(
        ("B200NoTargets",),
        lambda node: kept.extend(node.targets([])),
        lambda node: node.targets(kept),
    )


def without_engines(there: bool) -> Act:
    """Whether the engines give their metrics."""
    return lambda _: setattr(Engine, "metrics_are_there", there)


CASES = [
    without_targets(),
    Case(("B200NodeUnreachable",), lambda node: node.page.unlink()),
    Case(("B200MetricsMissing",), lambda node: node.write("b200_x 1\n")),
    on_page("B200ReadingStale", moment=Moment("b", 1000.0)),  # the look was early in this boot
    on_page("B200ReadingAbsent", verdict_at=""),
    on_page("B200CertificateEnds", watch=nodes.looked(gpus=GPUS, certificates={"/a.crt": ENDED})),
    Case(("B200EngineMetricsMissing",), without_engines(False), without_engines(True)),
    on_page("B200FabricFault", **fault("nvlink.links-up")),
    on_page("B200MemoryFault", **fault("ecc.volatile")),
    on_page("B200XidFault", **fault("xid.fatal")),
    on_page("B200ThermalFault", **fault("thermal.slowdown")),
    on_page("B200GpuLost", **fault("pcie.link")),
    on_page("B200OtherFault", **fault("host.iommu")),
    out("B200ReplicaOut", ProbeOutcome.NO_ANSWER),
    out("B200AnswersWrong", ProbeOutcome.WRONG),
    on_page("B200NodeMarked", marked=True),
    slow("B200TtftSlow", TTFT, 2.0),
    slow("B200ItlSlow", ITL, 0.3),
    on_page("B200LatencyNotCompared", record=()),
    Case(
        ("B200ErrorBudgetBurn",),
        lambda node: node.ask(FAILING, 20),
        lambda node: node.ask("/v1/models", 3000),
    ),
    on_page("B200ProofExpiring", proof=proven(time.time(), 0.9 * DECADES_S)),
    on_page("B200ProofExpired", proof=proven(time.time(), 1.1 * DECADES_S)),
    on_page("B200ProofAbsent", proof=None),
    on_page("B200NodePlanned", "B200OutOfServiceLong", quarantined=True),
    on_page("B200HealthChecksFail", health_checks={"success": 9, "timeout": 9}),
]  # fmt: skip
WINDOWED = {"B200HealthChecksFail"}
"""What has happened stays in its window: the last one, which nothing ends here."""
ELSEWHERE = {"B200FleetServesUnproven"}
"""Of the fleet's endpoint, not of a node: tests/unit/gateway/test_shares.py has its requests."""


def receiver(alert: str) -> str | None:
    """Who gets it; None: nobody, as it is planned."""
    return _RECEIVER.get(ALERTS[alert]["labels"]["severity"])


def begun(node: Monitored, before: int) -> set[Sent]:
    """What somebody was sent since then, but for ends: those of the case before may come late."""
    return {one for one in node.by.sent[before:] if one.status == "firing"}


def test_every_alert_is_here() -> None:
    assert {name for case in CASES for name in case.alerts} | ELSEWHERE == set(ALERTS)


@pytest.mark.process
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alerts[0])
def test_an_alert_reaches_its_receiver_and_its_end_does_too(node: Monitored, case: Case) -> None:
    node.tell()
    until(lambda: node.by.firing() <= WINDOWED, said=node.by.firing)
    before, there = len(node.by.sent), node.by.firing()
    case.begin(node)
    until(lambda: node.by.firing() == {*case.alerts} | there, said=node.by.firing)
    expected = {Sent(who, name, "firing") for name in case.alerts if (who := receiver(name))}
    until(lambda: expected == begun(node, before), said=lambda: node.by.sent[before:])
    if {*case.alerts} <= WINDOWED:
        return
    case.end(node)
    until(node.is_well, said=node.by.firing)
    ends = {one._replace(status="resolved") for one in expected}
    until(lambda: ends <= {*node.by.sent[before:]}, said=lambda: node.by.sent[before:])


@pytest.mark.process
def test_what_planned_work_does_to_a_node_pages_nobody(node: Monitored) -> None:
    node.tell(quarantined=True)
    until(lambda: "B200NodePlanned" in node.by.firing())
    before = len(node.by.sent)
    node.tell(quarantined=True, **fault("nvlink.links-up"), **standing(held="GPU 5"))
    there = {"B200FabricFault", "B200ReplicaOut"}
    until(lambda: there <= node.by.held_back(), said=node.by.held_back)
    time.sleep(2)  # longer than a group waits here
    assert [one for one in node.by.sent[before:] if one.receiver == PAGE] == []
    node.tell(**fault("nvlink.links-up"))
    until(lambda: Sent(PAGE, "B200FabricFault", "firing") in node.by.sent[before:])
