"""Bandwidth: measured before the gate that judges it, and never beside a replica.

It is measured again when the last result does not hold (another boot, driver or GPU, a tool that
was installed since), was judged bad, or is evidence of the node's proof that runs out; otherwise
the last result stays and nothing is changed. A node that the gate refuses for another reason is not
measured: that would only cost time. What serves has to end for it, so a node that others can stand
in for waits for its wave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from b200kit.converge.stage import Change, DesiredState, Stage
from b200kit.node.bandwidth import tests
from b200kit.node.bandwidth.tests import Bandwidth
from b200kit.node.checks.judge import judge_vetted
from b200kit.node.lib import documents, timestamp
from b200kit.node.placement.layout import Replica
from b200kit.node.state import drift
from b200kit.node.state.verdict import Finding, Status
from b200kit.run.node import Node
from b200kit.stages import gate, proof, serving_units

_DEADLINE_S = sum(probe.timeout_s for probe in tests.PROBES) + 120


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """Nothing to lay down; to know is whether a tool came to the node since the last result."""
    del layout
    places = [place for paths in tests.PLACES.values() for place in paths]
    return DesiredState(probe_files=() if node.spec.bandwidth == "off" else tuple(places))


def plan(node: Node) -> list[Change]:
    """Measure where it is asked for and the last result does not do.

    What serves ends for it only where the node could not go on serving without: a good result of an
    earlier boot waits for the next time that nothing runs, and a bad one is left to the gate.
    """
    if node.spec.bandwidth == "off":
        return []
    own, others = _blocking(node)
    if others:
        return []
    serves = serving_units.running(node, serving_units.replicas(node))
    absent = bool(own) and all(finding.status is Status.UNMEASURED for finding in own)
    runs_out = not own and proof.runs_out(node, _result(node))
    if not (absent or runs_out or (not serves and (own or _to_renew(node)))):
        return []
    ends = serving_units.running(node, serving_units.units(node)) if serves else []
    return [Change("measure the bandwidth", _measure, ends=tuple(ends), measures=True)]


def _blocking(node: Node) -> tuple[list[Finding], list[Finding]]:
    """What keeps the node from going live: by its bandwidth, and by anything else."""
    expectation = {**gate.expectation(node), "today": timestamp.today()}
    found = judge_vetted(expectation, node.state).blocking
    own = [finding for finding in found if finding.check.startswith("bandwidth.")]
    return own, [finding for finding in found if finding not in own]


def _to_renew(node: Node) -> bool:
    """Whether a good result is of an earlier boot, or misses a tool that is there now."""
    state: dict[str, Any] = node.state or {}
    found = documents.understood(Bandwidth, _result(node))
    if found is None:
        return True
    came = [place for tool in found.missing for place in tests.PLACES.get(tool, ())]
    here = any(drift.is_present(place, state) for place in came)
    return here or found.boot_id != (state.get("host") or {}).get("boot_id")


def _result(node: Node) -> object:
    """The last result, as it lies on the node."""
    return ((node.state or {}).get("notes") or {}).get("bandwidth")


def _measure(node: Node) -> str:
    gate.withdraw(node)
    return node.connected().program("bandwidth", timeout=_DEADLINE_S).strip()


STAGE = Stage(name="bandwidth", desired=desired, plan=plan)
"""What it measures is judged with all else by the gate, which comes next."""
