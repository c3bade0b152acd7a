"""`b200 smoke` held to what passed between it and the server: counts, order and formulas.

A proxy notes every byte on the machine's one clock. Nothing here depends on how fast this machine
is; how far the two are apart in milliseconds is a figure of `make bench`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bench import wire
from tests.bench.sent import METRICS, Sent, median, sent
from tests.lab.standin.knobs import Knobs
from tests.unit.node.client.scores import REPOSITORY
from tests.unit.node.client.server_thread import MODEL, running

B200 = str(Path(sys.executable).with_name("b200"))
REQUESTS, TOKENS = 20, 8
# Of such times no client's own error is a tenth, on a busy machine either.
SLOW = Knobs(0.0, ttft=0.04, itl=0.04, first_extra=0.0)


@dataclass(frozen=True)
class Seen:
    """What the client reported, and what passed the proxy."""

    document: dict[str, Any]
    ours: list[Sent]
    passed: list[Sent]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """One smoke of a stand-in server, through the proxy."""
    folder = tmp_path_factory.mktemp("wire")
    notes, result, pipe = folder / "notes.json", folder / "smoke.json", subprocess.PIPE
    with running(SLOW) as url:
        server = url.rpartition(":")[2]
        proxying = [sys.executable, "-m", "tests.bench.wire", server, str(notes)]
        with subprocess.Popen(
            proxying, cwd=REPOSITORY, stdin=pipe, stdout=pipe, text=True
        ) as proxy:
            assert proxy.stdin is not None
            assert proxy.stdout is not None
            port = proxy.stdout.readline().split()[0]
            smoking = [B200, "smoke", f"http://127.0.0.1:{port}"]
            asked = [
                "--requests",
                str(REQUESTS),
                "--rate",
                "20",
                "--output-tokens",
                str(TOKENS),
                "--share",
                "0.5",
            ]
            done = subprocess.run(
                [*smoking, "--model", MODEL, "--output", str(result), *asked],
                cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            proxy.stdin.close()
            proxy.wait(300)
    assert result.exists(), done.stderr
    document = json.loads(result.read_text())["bench"]
    ours = sent(document)
    passed = wire.requests(json.loads(notes.read_text())[0])
    return Seen(document, ours, passed[-len(ours) :])


def test_every_request_is_found_on_the_wire_with_its_tokens(seen: Seen) -> None:
    assert seen.document["failed"] == 0
    assert len(seen.ours) == len(seen.passed) == REQUESTS
    assert {one.tokens for one in (*seen.ours, *seen.passed)} == {TOKENS}
    assert seen.document["total_output_tokens"] == TOKENS * REQUESTS


def test_each_passed_after_it_was_sent_and_before_its_first_token_was_seen(seen: Seen) -> None:
    for one, passed in zip(seen.ours, seen.passed, strict=True):
        assert one.at <= passed.at < one.at + one.ttft


def test_nothing_is_seen_before_it_passed(seen: Seen) -> None:
    for one, passed in zip(seen.ours, seen.passed, strict=True):
        # What the proxy notes it has just sent on.
        assert len(one.gaps) == len(passed.gaps) == TOKENS - 1
        assert one.at + one.e2el > passed.at


@pytest.mark.parametrize("metric", METRICS)
def test_medians_are_those_of_the_requests_by_vllms_definitions(seen: Seen, metric: str) -> None:
    stated = seen.document[f"median_{metric}_ms"]
    assert stated == pytest.approx(median(seen.ours, metric), abs=0.01)
