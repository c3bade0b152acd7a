"""What the gateway adds to a first token, with a real HAProxy and a mock of known times."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from b200kit.serving.gateway.haproxy_lint import problems
from tests.unit.gateway.mock import CHUNKS, ITL_MS
from tests.unit.gateway.proxy import ROOT, free_port, mock, rendered, running, started

# Milliseconds are judged: nothing else of the suite may run beside it.
pytestmark = pytest.mark.alone

STREAMS, ROUNDS, TRIES = 16, 4, 3
MOST_ADDED_MS = 3.0
NO_DELAY = "option http-no-delay"


def medians(*urls: str) -> list[float]:
    """Median TTFT of each URL in milliseconds, from one run that takes turns."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.gateway.times", str(STREAMS), str(ROUNDS), *urls],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [statistics.median(times) for times in json.loads(done.stdout)]


def test_gateway_adds_little_to_the_first_token_and_merges_nothing(tmp_path: Path) -> None:
    """Beside it, in the same run, a gateway without the option, so that the test can fail."""
    bare = tmp_path / "bare"
    bare.mkdir()
    with mock() as port, running(tmp_path, [port]) as proxy:
        other = free_port()
        config, paths = rendered(bare, [port], port=other)
        text = config.read_text()
        config.write_text(text.replace(NO_DELAY, "# no such option"))
        assert list(problems(text)) == []
        [told] = problems(config.read_text())
        assert NO_DELAY in told
        with started(config, paths, other) as merging:
            # What else runs on this machine can only add to it.
            for _ in range(TRIES):
                urls = (f"http://127.0.0.1:{port}", proxy.url, merging.url)
                direct, through, merged = medians(*urls)
                if through - direct < MOST_ADDED_MS:
                    break
    print(f"TTFT p50 ms: direct {direct:.1f}, gateway {through:.1f}, merging {merged:.1f}")
    assert through - direct < MOST_ADDED_MS, (direct, through, merged)
    # The first chunk waits for others: how long is the kernel's and HAProxy's business.
    assert merged - direct > 2 * ITL_MS, (direct, through, merged)
    assert merged < CHUNKS * ITL_MS * 2, (direct, through, merged)
