"""How exact the client is: against the server's own record of the same run, not against a clock.

Client and server are processes of their own, real-time, each on its own CPU, and every error is a
difference of two stamps of one clock. A run that misses the bounds while the machine kept either of
them from its CPU says nothing about the client: it is made again, and after three such runs the
test is *skipped* as not measured, with what was seen. The bounds are never widened.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.unit.latency.scores import REPOSITORY, playing

pytestmark = pytest.mark.alone
ATTEMPTS = 3
QUIET = 0.005
"""Share of the run that either process may have waited for its CPU."""


def run(streams: int, requests: int, tokens: int) -> dict[str, Any]:
    """One run, in two processes."""
    client_cpu, server_cpu, *_ = sorted(os.sched_getaffinity(0))
    asked = [*map(str, (streams, requests, tokens)), "--cpu", str(client_cpu)]
    with playing(server_cpu) as url:
        done = subprocess.run(
            [sys.executable, "-m", "tests.unit.latency.accuracy", url, *asked],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def disturbed(found: dict[str, Any]) -> str | None:
    """What the machine did to this run, None when it left it alone.

    Only what the kernel says counts: a client that is slow by itself gets no excuse here.
    """
    client = found["client"]
    waits = [client["run_delay_share"], found["server_run_delay_ms"] / found["wall_ms"]]
    if client["scheduler"] == "rr" and max(waits) <= QUIET:
        return None
    return f"client waited {waits[0]:.1%}, server {waits[1]:.1%} ({client['scheduler']})"


def worst(found: dict[str, Any]) -> float:
    """The larger of the two errors at P99, in milliseconds."""
    return float(max(found["ttft_error_ms"]["99"], found["gap_error_ms"]["99"]))


def measured(streams: int, requests: int, tokens: int, bound_ms: float) -> dict[str, Any]:
    """A run that is within the bound or was left alone; skips when there is none."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("not measured: client and server need a CPU each")
    seen = []
    for _ in range(ATTEMPTS):
        found = run(streams, requests, tokens)
        told = disturbed(found)
        if told is None or worst(found) < bound_ms:
            return found
        seen.append(f"{worst(found):.1f} ms, {told}")
    pytest.skip(f"not measured, the machine was busy: {'; '.join(seen)}")


@pytest.mark.parametrize(
    ("streams", "requests", "tokens", "bound_ms"), [(16, 320, 21, 1.0), (64, 400, 49, 3.0)]
)
def test_ttft_and_gaps_are_those_that_the_server_made(
    streams: int, requests: int, tokens: int, bound_ms: float
) -> None:
    found = measured(streams, requests, tokens, bound_ms)
    print({key: value for key, value in found.items() if key not in ("summary", "truth")})
    assert found["failed"] == 0
    assert found["starved"] == []
    assert found["streams"] >= streams
    assert found["samples"] == [requests, requests * (tokens - 1)]
    assert found["ttft_error_ms"]["99"] < bound_ms, found["ttft_error_ms"]
    assert found["gap_error_ms"]["99"] < bound_ms, found["gap_error_ms"]
    ours, truth = found["summary"], found["truth"]
    for key in truth:
        if key.endswith(("_ttft_ms", "_tpot_ms", "_e2el_ms")):
            assert ours[key] == pytest.approx(truth[key], abs=bound_ms), key
    # Every fourth request is 60 ms over the objective, all others 60 ms below: no rounding helps.
    assert ours["goodput_share"] == truth["goodput_share"] == 0.75
    assert ours["p50_ttft_ms"] == pytest.approx(40.0, abs=bound_ms)
    assert ours["p99_ttft_ms"] == pytest.approx(160.0, abs=bound_ms)
    assert ours["p50_itl_ms"] == pytest.approx(10.0, abs=bound_ms)
    assert ours["tokens_per_chunk"] == 1.0
