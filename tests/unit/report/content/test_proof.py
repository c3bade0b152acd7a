"""Proof freshness of a run: which GPUs serve, and which of them under a valid proof."""

from __future__ import annotations

from typing import Any

from b200kit.report.content.nodes import freshness, in_short, proven
from b200kit.report.terminal import page
from tests.subtests import in_subtests

UNITS = ("vllm@0.service", "vllm@1.service")


def host(status: str = "pass", running: int = 2, **changes: Any) -> dict[str, Any]:
    """A node with two replicas of four GPUs each, which has served for two hours."""
    active = {unit: {"active": "inactive"} for unit in UNITS}
    active |= {unit: {"active": "active"} for unit in UNITS[:running]}
    counted = {"served": 57_600, "proven": 43_200}
    return {
        "outcome": "fit",
        "expectation": {
            "proof": {"replicas": list(UNITS)},
            "placement": {unit: {"gpus": [f"{unit}{n}" for n in range(4)]} for unit in UNITS},
        },
        "state": {"units": active, "notes": {"proof": {"gpu_seconds": counted}}},
        "verdict": {"findings": [{"check": "proof.valid", "status": status, "summary": "s"}]},
        **changes,
    }


def run(*hosts: dict[str, Any]) -> dict[str, Any]:
    """A check of these nodes."""
    return {"entry": "deploy/check.py", "hosts": {f"n{n}": one for n, one in enumerate(hosts)}}


UNREAD = host(state=None, verdict=None, outcome="unreachable")
OFF = host(expectation={})


@in_subtests(
    ("hosts", "text"),
    [
        ((host(),), "proof freshness 100 % (8 of 8 GPUs; 75 % of GPU-hours)"),
        ((host(), host("fail")), "proof freshness 50 % (8 of 16 GPUs; 75 % of GPU-hours)"),
        ((host("unmeasured"),), "proof freshness 0 % (0 of 8 GPUs; 75 % of GPU-hours)"),
        ((host(verdict=None),), "proof freshness 0 % (0 of 8 GPUs; 75 % of GPU-hours)"),
        ((host(running=1), host("fail", running=0)),
         "proof freshness 100 % (4 of 4 GPUs; 75 % of GPU-hours)"),
        ((host(), UNREAD),
         "proof freshness 100 % (8 of 8 GPUs; 75 % of GPU-hours), 1 node unread"),
        ((UNREAD,), "proof freshness unmeasured, 1 node unread"),
        ((OFF,), ""),
        ((), ""),
    ],
)  # fmt: skip
def test_freshness(hosts: tuple[dict[str, Any], ...], text: str) -> None:
    assert freshness(run(*hosts)) == text


def test_nearly_all_is_not_all() -> None:
    many = [host() for _ in range(2000)]
    assert freshness(run(*many, host("fail"))).startswith("proof freshness 99.9 %")


def test_a_unit_of_which_nothing_is_known_may_serve_and_is_counted() -> None:
    unknown = host("unmeasured", state={"units": {"unmeasured": "no systemd"}})
    assert freshness(run(unknown)).startswith("proof freshness 0 % (0 of 8")


def test_a_node_in_short_counts_as_whole() -> None:
    assert proven(run(in_short(host()), in_short(UNREAD))) == proven(run(host(), UNREAD))


def test_it_is_on_the_last_line_of_a_check_and_of_nothing_else() -> None:
    said = page.lines(run(host()), report="")
    assert said[-1] == (
        "1 node: 1 fit      proof freshness 100 % (8 of 8 GPUs; 75 % of GPU-hours)      exit 0"
    )
    deployed = {**run(host(outcome="live")), "entry": "deploy/b200.py"}
    assert "freshness" not in "".join(page.lines(deployed, report=""))
