"""What the gateway adds to a first token, and how long threads wait for a CPU they share."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock as patching

from b200kit.node.latency import gateway_counters
from b200kit.node.serving.gateway.haproxy import UNIT
from tests.bench.figures import show
from tests.unit.gateway.mock import ITL_MS
from tests.unit.gateway.proxy import ROOT, free_port, mock, rendered, running, started

STREAMS, ROUNDS, TRIES = 16, 4, 3
NO_DELAY = "option http-no-delay"
WATCHED_S = 0.6
BUSY = """
import os, sys, threading, time
os.sched_setaffinity(0, {int(sys.argv[1])})
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("on", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end: pass
"""


def overhead() -> None:
    """The same streams direct, through the gateway, and through one without the option."""
    with tempfile.TemporaryDirectory() as folder, mock() as port:
        own, bare = Path(folder) / "own", Path(folder) / "bare"
        own.mkdir()
        bare.mkdir()
        other = free_port()
        config, paths = rendered(bare, [port], port=other)
        config.write_text(config.read_text().replace(NO_DELAY, "# no such option"))
        with running(own, [port]) as proxy, started(config, paths, other) as merging:
            for number in range(TRIES):
                found = medians(f"http://127.0.0.1:{port}", proxy.url, merging.url)
                names = ("direct_ms", "gateway_ms", "merging_ms")
                show(f"TTFT p50, run {number + 1}", **dict(zip(names, found, strict=True)))
    show("the mock's gap between chunks", ms=ITL_MS)


def medians(*urls: str) -> list[float]:
    """Median TTFT of each URL in milliseconds, from one run that takes turns."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.gateway_times", str(STREAMS), str(ROUNDS), *urls],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return [statistics.median(times) for times in json.loads(done.stdout)]


def waiting() -> None:
    """Of three processes that want one CPU, each waits two thirds of the time."""
    with crowd(3) as pids, gateway_of(*pids[:2]):
        before, start = gateway_counters.delays_ms(), time.perf_counter()
        time.sleep(WATCHED_S)
        after, wall_ms = gateway_counters.delays_ms(), (time.perf_counter() - start) * 1000
        show("threads that share a CPU", share=gateway_counters.share(before, after, wall_ms))


@contextlib.contextmanager
def gateway_of(*pids: int) -> Iterator[None]:
    """The gateway's unit holds these processes."""
    found = {UNIT: {"ControlGroup": "/gateway"}}
    with (
        patching.patch.object(
            gateway_counters, "units", lambda names: {n: found[n] for n in names}
        ),
        patching.patch.object(gateway_counters, "members", lambda _: [*pids]),
    ):
        yield


@contextlib.contextmanager
def crowd(count: int) -> Iterator[list[int]]:
    """So many processes, of two threads each, that want one CPU."""
    command = [sys.executable, "-c", BUSY, str(max(os.sched_getaffinity(0)))]
    made = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        for one in made:
            assert one.stdout is not None
            assert one.stdout.readline() == "on\n"
        yield [one.pid for one in made]
    finally:
        for one in made:
            one.kill()
            one.communicate()
