"""Measure bandwidth with nvbandwidth and NCCL's all_reduce_perf, where they are installed.

The result stays on the node in /var/lib/b200kit/bandwidth.json, of schema b200kit/bandwidth/1:
schema, taken_at, boot_id, driver_version, gpu_uuids, results, missing (tool to why it is not
there), failed (test to why it gave nothing). It is judged by
b200kit/node/checks/serving/bandwidth.py; measuring is not judging, so the exit status is 0 when a
result was written, whatever it says, and 2 when nothing was measured.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from b200kit.node.bandwidth.tests import PLACES, PROBES, Bandwidth, BandwidthResult, Probe, Unusable
from b200kit.node.facts.nvml.client import Worker
from b200kit.node.facts.observe import NVML_TIMEOUT_S
from b200kit.node.lib import documents, durable_files, hard_timeout, lock, readings, timestamp
from b200kit.node.lib.managed_files import STATE_DIRECTORY
from b200kit.node.lib.program import claim_stdout, emit
from b200kit.node.state.plausible import plausible
from b200kit.node.state.view import StateView, Unread

REPLICAS = ["systemctl", "list-units", "--plain", "--no-legend", "vllm@*.service"]


class BandwidthRefused(Exception):
    """Why nothing can be measured now."""


def find(tool: str, more: Iterable[str] = ()) -> str | None:
    """The program of a tool: from PATH, else from where it is known to be installed, or *more*."""
    known = (*PLACES.get(tool, ()), *more)
    places = (place for place in known if os.access(place, os.X_OK))
    return shutil.which(tool) or next(places, None)


def environment() -> dict[str, str]:
    """Ours, with the GPUs all visible and counted as NVML counts them, by PCI address."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("NCCL_TESTS_")
    }
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    return {**environment, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "LC_ALL": "C.UTF-8"}


def run(argv: list[str], timeout_s: float) -> tuple[int, str, str]:
    """Exit status and output of a tool; killed with all it started when its time is up (Unusable).

    Raises OSError when it cannot be started.
    """
    try:
        done = hard_timeout.run(argv, timeout_s, environment())
    except TimeoutError:
        raise Unusable(f"it did not end within {timeout_s:g} s and was killed") from None
    output, errors = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return done.returncode, output, errors


def measure(probe: Probe, program: str, gpus: int) -> list[BandwidthResult]:
    """Results of one test; raises Unusable or OSError with the reason when there are none.

    Output with wrong values counts whatever the exit status, because that only repeats it.
    """
    status, output, errors = run(probe.argv(program, gpus), probe.timeout_s)
    try:
        results = probe.read(output)
    except Unusable as error:
        line = (errors.strip().splitlines() or [str(error)])[-1]
        raise Unusable(f"exit status {status}: {line.strip()}" if status else str(error)) from None
    if status and not any(result.wrong for result in results):
        raise Unusable(f"exit status {status} in spite of a result")
    return results


def measure_all(gpus: int) -> tuple[list[BandwidthResult], dict[str, str], dict[str, str]]:
    """Results, tools that are missing, and tests that failed."""
    results: list[BandwidthResult] = []
    failed: dict[str, str] = {}
    programs = {tool: find(tool) for tool in PLACES}
    for probe in PROBES:
        program = programs[probe.tool]
        if program is None:
            continue
        print(f"bandwidth: {probe.test}", file=sys.stderr, flush=True)
        try:
            results += measure(probe, program, gpus)
        except (Unusable, OSError) as error:
            failed[probe.test] = " ".join(f"{probe.tool}: {error}".split())
    missing = {tool: "not installed" for tool, program in programs.items() if program is None}
    return results, missing, failed


def measured() -> Bandwidth:
    """A measurement of this node. Raises BandwidthRefused when NVML does not answer."""
    state = StateView(plausible(Worker(NVML_TIMEOUT_S).result()))
    try:
        driver = state.text("nvml", "driver_version")
        uuids = tuple(gpu.text("uuid") for gpu in state.gpus)
    except Unread as error:
        raise BandwidthRefused(f"NVML does not answer: {error}") from None
    if not uuids:
        raise BandwidthRefused("NVML lists no GPU")
    boot = readings.text("/proc/sys/kernel/random/boot_id")
    results, missing, failed = measure_all(len(uuids))
    return Bandwidth(boot, driver, uuids, tuple(results), missing, failed, timestamp.now())


def refuse_beside_replicas() -> None:
    """Raise Refused while a replica may run: it would be disturbed, and the result be wrong."""
    try:
        lines = readings.command(REPLICAS).splitlines()
    except OSError as error:
        raise BandwidthRefused(f"whether a replica serves is unknown: {error}") from None
    words = [line.split() for line in lines]
    running = [w[0] for w in words if len(w) > 2 and w[2] not in ("inactive", "failed")]
    if running:
        raise BandwidthRefused(f"{', '.join(running)} must be stopped first")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock while measuring; raises Refused when another measurement holds it."""
    with open(lock.opened(path), "w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BandwidthRefused("another measurement is at work") from None
        yield


def describe(found: Bandwidth) -> str:
    """The measurement on one line: how much was measured, and what was not."""
    parts = [f"{len(found.results)} results"]
    parts += [f"{tool} is {why}" for tool, why in found.missing.items()]
    parts += [f"{test} gave none: {why}" for test, why in found.failed.items()]
    return "; ".join(parts)


def main(args: list[str]) -> int:
    """Measure, keep the document, print it or one line about it."""
    parser = argparse.ArgumentParser(prog="bandwidth")
    parser.add_argument("--json", action="store_true", help="print the document")
    options = parser.parse_args(args)
    out = claim_stdout()
    # A tool must not outlive us: as an exception, the signal passes through the code that kills it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with alone(STATE_DIRECTORY / ".bandwidth.lock"):
            refuse_beside_replicas()
            found = measured()
            durable_files.replace(STATE_DIRECTORY / "bandwidth.json", documents.to_bytes(found))
    except (BandwidthRefused, OSError) as error:
        print(f"bandwidth: not measured: {error}", file=sys.stderr)
        return 2
    if options.json:
        emit(out, documents.unstructure(found))
    else:
        with open(out, "w", encoding="utf-8", closefd=False) as stdout:
            stdout.write(f"{describe(found)}\n")
    return 0
