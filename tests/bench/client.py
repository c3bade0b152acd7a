"""The client's exactness, what a freeze looks like to it, and what it says when it is starved."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import ChatAnswer, ChatRequest, Endpoint, chat
from b200kit.node.client.formulas import timing
from b200kit.node.client.percentiles import percentile
from tests.bench.figures import Missing, a_cpu_each, show
from tests.unit.node.client.scores import REPOSITORY, Score, even, playing
from tests.unit.node.client.server_thread import MODEL, running

RUNS = 3
LOADS = ((1, 40, 49), (16, 320, 21), (64, 400, 49), (256, 1200, 49))
"""Streams at once, requests, tokens of each."""
FREEZE_S, AT, REQUESTS, RATE = 2.0, 25, 150, 50.0
B200 = str(Path(sys.executable).with_name("b200"))
HOG_S = 12
"""The longest that the hog lives, whatever becomes of its parent."""


def exactness() -> None:
    """Each error is a difference of two stamps of one clock, the client's and the server's."""
    for streams, requests, tokens in LOADS:
        for _ in range(RUNS):
            _show(f"{streams} streams", accuracy(streams, requests, tokens))
    _show("16 streams, 0.5 ms of work at each piece", accuracy(*LOADS[1], work_ms=0.5))


def _show(name: str, found: dict[str, Any]) -> None:
    keys = ("ttft_error_ms", "gap_error_ms", "server_late_ms", "cpu_us_a_token", "starved")
    off = {
        key: round(abs(seen - truth), 3)
        for metric in ("ttft", "tpot", "e2el")
        for key in (f"p50_{metric}_ms", f"p99_{metric}_ms")
        # Few requests carry no P99.
        if None not in (seen := found["summary"][key], truth := found["truth"][key])
    }
    show(name, **{key: found[key] for key in keys}, off_truth_ms=off)


def accuracy(streams: int, requests: int, tokens: int, work_ms: float = 0) -> dict[str, Any]:
    """One run, client and server each a process on a CPU of its own (tests/bench/accuracy.py)."""
    client_cpu, server_cpu, *_ = a_cpu_each()
    asked = [*map(str, (streams, requests, tokens)), "--cpu", str(client_cpu)]
    with playing(server_cpu) as url:
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.accuracy", url, *asked, "--work-ms", str(work_ms)],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def freeze() -> None:
    """100 of the open loop's 150 requests are due in the freeze; the closed loop sends none."""
    loops = {"open loop": Arrival(RATE, even=True), "closed loop": Arrival(concurrency=1)}
    for name, arrival in loops.items():
        ttfts = [item.ttft for item in map(timing, (a.record() for a in offer(arrival))) if item]
        figures = {f"p{share}_s": percentile(ttfts, share) for share in (50, 95)}
        show(name, **figures, max_s=max(ttfts), answers=len(ttfts))


def score(number: int) -> Score:
    """An answer of 11 ms; at the 25th request the whole server stands still first."""
    steps = even(0.010, 0.001, 2)
    return [[0.0, {"freeze": FREEZE_S}], *steps] if number == AT else steps


def offer(arrival: Arrival) -> list[ChatAnswer]:
    """The answers of one run against a server of its own."""

    async def send(number: int, due: float) -> ChatAnswer:
        extra: dict[str, object] = {"score": {"name": str(number), "steps": score(number)}}
        return await chat(Endpoint(url), ChatRequest("m", "p", 2, extra=extra), None, due)

    with playing() as url:
        return asyncio.run(arrival.run(REQUESTS, 1, send))


def starved() -> None:
    """`b200 smoke` on a CPU that something of higher priority keeps busy: invalid, no latency."""
    cpu = a_cpu_each()[-1]
    command = [sys.executable, "-m", "tests.bench.hog", str(cpu), str(HOG_S)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True) as hog:
        assert hog.stdout is not None
        try:
            if hog.stdout.readline() != "on\n":
                raise Missing("real-time priority is not permitted here")
            with running() as url:
                found = smoke(url, "--cpus", str(cpu))
        finally:
            hog.kill()
    show("smoke", verdict=found["verdict"], reasons=found["reasons"], client=found["client"])


def smoke(url: str, *more: str) -> dict[str, Any]:
    """The document of `b200 smoke` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out.json"
        command = [B200, "smoke", url, "--model", MODEL]
        done = subprocess.run(
            [*command, "--output", str(file), "--requests", "20", "--rate", "20", *more],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert file.exists(), done.stderr
        document: dict[str, Any] = json.loads(file.read_text())["smoke"]
        return document
