"""Who uses a node: when it is idle, and whom a measurement yields to."""

from __future__ import annotations

from collections.abc import Sequence

from b200kit.node.renewal.traffic import GatewayTraffic, Quiet, foreign
from tests.subtests import in_subtests

NOBODY = GatewayTraffic(7, 0)
PROBE = GatewayTraffic(7, 0, 1)


@in_subtests(
    ("readings", "quiet_s"),
    [
        ([NOBODY], 0),
        ([NOBODY] * 5, 4),
        ([NOBODY, GatewayTraffic(7, 1), NOBODY, NOBODY], 1),
        # It came and went between two readings.
        ([NOBODY, NOBODY, GatewayTraffic(8, 0), GatewayTraffic(8, 0)], 0),
        # The watchdog asks each replica for a token now and then.
        ([NOBODY, PROBE, NOBODY, PROBE, NOBODY], 4),
        # A stream of the gateway's process before a reload, or a load past it.
        ([NOBODY, PROBE, PROBE, NOBODY], 0),
        ([NOBODY, NOBODY, "no socket", NOBODY], 0),
    ],
)
def test_for_how_long_nobody_asked(
    readings: Sequence[GatewayTraffic | str], quiet_s: float
) -> None:
    quiet = Quiet()
    for at, seen in enumerate(readings):
        quiet = quiet.after(float(at), seen)
    assert quiet.for_s(len(readings) - 1) == quiet_s


def test_what_ended_it_is_said() -> None:
    assert "no socket" in Quiet().after(0.0, "no socket").why
    assert "3" in Quiet().after(0.0, GatewayTraffic(7, 3)).why


@in_subtests(
    ("now", "sent", "yields"),
    [
        (GatewayTraffic(7, 0), 0, False),
        (GatewayTraffic(10, 3), 3, False),
        # On its way to the gateway.
        (GatewayTraffic(10, 3), 5, False),
        (GatewayTraffic(11, 1), 3, True),
        # It has ended already.
        (GatewayTraffic(11, 0), 3, True),
        (GatewayTraffic(2, 0), 3, True),
    ],
)
def test_whom_it_yields_to(now: GatewayTraffic, sent: int, yields: bool) -> None:
    assert bool(foreign(NOBODY, now, sent)) == yields
