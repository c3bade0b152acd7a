"""NCCL's transport by its own log: sound, staged, fallen back, short of a rail, cut off."""

from __future__ import annotations

from pathlib import Path

from b200kit.acceptance.network.nccl_log import findings
from tests.subtests import in_subtests

LOG = Path(__file__).parents[3].joinpath("data/acceptance/nccl-two-nodes.txt").read_text("utf-8")
CUT = LOG.rpartition("\nn02:7710:7788")[0]


@in_subtests(
    ("log", "rails", "expected"),
    [
        (LOG, 2, ["pass", "pass"]),
        (LOG, 8, ["pass", "fail"]),
        (LOG.replace("NET/IB", "NET/gIB"), 2, ["pass", "pass"]),
        (LOG.replace("[send] via NET/IB/1/GDRDMA", "[send] via NET/IB/1"), 2, ["fail", "pass"]),
        (LOG.replace("via NET/IB/1/GDRDMA", "via NET/Socket/0"), 2, ["fail", "pass"]),
        (LOG.replace("Using network IB", "Using network Socket"), 2, ["fail", "pass"]),
        (LOG.replace(" [1]mlx5_3:1/RoCE", "", 1), 2, ["pass", "fail"]),
        # A rank did not come up: whatever the others did, there is no verdict.
        (CUT, 2, ["unmeasured"]),
        (LOG.replace("Init COMPLETE", ""), 2, ["unmeasured"]),
        (LOG.replace("NCCL version", "version"), 2, ["unmeasured"]),
        # One node's log has no channel to another.
        (LOG.replace("via NET/IB", "via P2P/CUMEM"), 2, ["unmeasured", "pass"]),
        (LOG.replace("NET/IB : Using", "Using"), 2, ["pass", "unmeasured"]),
        ("", 2, ["unmeasured"]),
    ],
    ids=lambda value: str(value)[-30:],
)
def test_transport_is_what_the_log_shows(log: str, rails: int, expected: list[str]) -> None:
    found = list(findings(log, rails))
    assert [each.status.value for each in found] == expected
    assert {each.check for each in found} == {"network.transport"}
