"""One segment of a run: its tool in a process group of its own, watched, and read into a line."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from b200kit.node.acceptance import counters, folder, machine, readers
from b200kit.node.acceptance.readers import HardwareFailed, Printed, ToolNotApplicable
from b200kit.node.acceptance.table import AcceptanceTest, table
from b200kit.node.bandwidth.run import environment
from b200kit.node.bandwidth.tests import Unusable
from b200kit.node.client.smoke_result import Extent, GpuFigures
from b200kit.node.latency.gpu_watch import GpuWatch
from b200kit.node.lib import boot_clock, durable_files, hard_timeout, timestamp
from b200kit.node.lib.documents import LARGE
from b200kit.node.lib.readings import command
from b200kit.node.state.acceptance import AcceptancePlan, MetricValue, Outcome, SegmentLine, Step
from b200kit.node.state.clock_reasons import SLOWED
from b200kit.node.state.view import StateView

RESERVE = 64 << 20
"""Bytes that the disk must have left before and after a segment, for raw output and the seal."""
EVERY_S = 3.0
"""Seconds from one look to the next while the GPUs cool down."""
CALM_S = 30.0
RISE_C = 10.0
"""Cool is no copy for so many seconds and at most so many degrees above rest (inferred)."""


@dataclass(frozen=True)
class Segment:
    """One segment that is to be run, the attempt, and what the run has so far."""

    path: Path
    plan: AcceptancePlan
    lines: Sequence[SegmentLine]
    step: Step
    attempt: int

    @property
    def test(self) -> AcceptanceTest:
        """The test it is of."""
        return table().test(self.step.test)

    @property
    def raw(self) -> tuple[Path, Path]:
        """Where the tool's two outputs go."""
        again = f"-{self.attempt}" if self.attempt > 1 else ""
        name = f"{self.step.number:03}-{self.step.test}-{self.step.segment}{again}"
        return self.path / folder.RAW / f"{name}.out", self.path / folder.RAW / f"{name}.err"


def run(segment: Segment, state: StateView) -> SegmentLine:
    """Run it, and say what came of it; *state* is what NVML said just before.

    Raises OSError where the disk is full: then nothing is said, and it is run again later.
    """
    step, test = segment.step, segment.test
    _require_space(segment.path)
    before, moment = counters.read(state), boot_clock.now()
    began_at = timestamp.now()
    values, outcome, why = _outcome(segment, state)
    seconds = boot_clock.seconds() - moment.seconds
    if outcome == "hung" and (words := table().tools[test.tool].after_hang):
        with suppress(OSError):
            command(list(words))
    _require_space(segment.path)
    raw = {
        file.relative_to(segment.path).as_posix(): folder.sha256(file)
        for file in segment.raw
        if file.exists()
    }
    if test.tool == "dcgmi" and outcome == "done":
        why, floors = machine.dcgm_floors(state)
        values += floors
    after = before if not test.tool else counters.read(machine.observed())
    return SegmentLine(
        step.number, step.test, step.segment, segment.attempt, outcome, why, values,
        before, after, raw, moment.boot_id, began_at, round(seconds, 3),
    )  # fmt: skip


def _outcome(segment: Segment, state: StateView) -> tuple[tuple[MetricValue, ...], Outcome, str]:
    """The figures, how it ended, and why where it did not end well."""
    test = segment.test
    if test.tool and test.tool not in segment.plan.tools:
        return (), "missing", f"{test.tool} is not installed: {segment.plan.missing[test.tool]}"
    try:
        return OWN.get(test.reader[0], _tool)(segment, state), "done", ""
    except HardwareFailed as error:
        return (), "failed", str(error)
    except ToolNotApplicable as error:
        return (), "not applicable", str(error)
    except TimeoutError:
        return (), "hung", f"it did not end within {segment.step.timeout_s:g} s and was killed"
    except Unusable as error:
        return (), "machinery", str(error)


def _tool(segment: Segment, state: StateView) -> tuple[MetricValue, ...]:
    """Run its tool and read what it printed, with what the GPUs did meanwhile."""
    argv, gpus = segment.step.argv, len(segment.plan.machine.gpus)
    watching = GpuWatch() if segment.test.loads == "gpu" else nullcontext()
    with watching as watch, _files(segment.raw) as (out, err):
        if watch:
            watch.begin()
        try:
            status = hard_timeout.into(
                argv, segment.step.timeout_s, out, err, environment(), Path(argv[0]).parent
            )
        except TimeoutError:
            raise
        except OSError as error:
            raise Unusable(f"it cannot be started: {error}") from None
        figures = watch.end() if watch else ()
    out_text, err_text = map(_text, segment.raw)
    printed = Printed(out_text, err_text, status, gpus)
    return readers.read(segment.test.reader, printed) + tuple(watched(figures or ()))


@contextmanager
def _files(paths: tuple[Path, Path]) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The raw files, empty, and on the disk once the tool is over. Raises OSError."""
    paths[0].parent.mkdir(exist_ok=True)
    with paths[0].open("wb") as out, paths[1].open("wb") as err:
        try:
            yield out, err
        finally:
            for file in (out, err):
                os.fsync(file.fileno())
    durable_files.sync_directory(paths[0].parent)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(LARGE + 1)
    if len(content) > LARGE:
        raise Unusable(f"it printed more than {LARGE} bytes")
    return content.decode(errors="replace")


def _require_space(path: Path) -> None:
    free = shutil.disk_usage(path).free
    if free < RESERVE:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}, {free} bytes free", str(path))


def watched(figures: Sequence[GpuFigures]) -> Iterator[MetricValue]:
    """What the GPUs did during a load; what could not be read has no value."""
    for gpu in figures:
        subject = f"GPU {gpu.index}"
        for metric, unit, found in (
            ("sm_clock_mhz", "MHz", gpu.sm_clock_mhz),
            ("power_w", "W", gpu.power_usage_mw),
            ("temperature_c", "C", gpu.temperature_c),
        ):
            if isinstance(found, Extent):
                scale = 1000 if unit == "W" else 1  # from mW
                yield MetricValue(f"{metric}_median", subject, found.median / scale, unit)
                yield MetricValue(f"{metric}_max", subject, found.max / scale, unit)
        if isinstance(gpu.clocks_event_reasons, int):
            for bit, words in SLOWED.items():
                slowed = bool(gpu.clocks_event_reasons & bit)
                yield MetricValue(words.replace(" ", "_"), subject, float(slowed), "")


def facts(segment: Segment, state: StateView) -> tuple[MetricValue, ...]:
    """What is counted, and the GPUs' temperature."""
    del segment
    found = machine.inventory(state)
    if not state.known_gpus:
        raise Unusable("NVML does not answer")
    return found


def boot(segment: Segment, state: StateView) -> tuple[MetricValue, ...]:
    """What is counted after the reboot that its step is about, which is made first."""
    reboots = [line for line in segment.lines if line.test == segment.test.same_as]
    if not reboots:
        raise Unusable("no line says what there was before the reboot")
    if reboots[-1].boot_id == boot_clock.now().boot_id:
        restart(segment.step.timeout_s)
        raise Unusable(f"the node did not go down within {segment.step.timeout_s:g} s")
    return machine.inventory(state)


def restart(within_s: float) -> None:
    """Reboot, which ends this process, too; return where it did not happen."""
    try:
        command(["systemctl", "reboot"])
    except OSError as error:
        raise Unusable(f"the reboot was refused: {error}") from None
    time.sleep(within_s)


def cool_down(segment: Segment, state: StateView) -> tuple[MetricValue, ...]:
    """Seconds until the GPUs were cool. Raises Unusable where they never were, or it is unknown."""
    del state
    rest = {
        value.subject: value.value
        for line in segment.lines
        for value in line.values
        if line.test == "facts" and value.metric == "idle_temperature_c"
    }
    begin = calm_since = boot_clock.seconds()
    seen = ""
    while (now := boot_clock.seconds()) - begin <= segment.step.timeout_s:
        try:
            seen = command(list(segment.step.argv))
            is_cool = is_at_rest(seen, rest, len(segment.plan.machine.gpus))
        except (OSError, ValueError) as error:
            raise Unusable(f"nvidia-smi: {error}") from None
        calm_since = calm_since if is_cool else boot_clock.seconds()
        if boot_clock.seconds() - calm_since >= CALM_S:
            return (MetricValue("cool_down_s", "node", round(now - begin, 1), "s"),)
        time.sleep(EVERY_S)
    raise Unusable(f"the GPUs did not cool down: {'; '.join(seen.split(chr(10)))[:200]}")


def is_at_rest(said: str, rest: dict[str, float], gpus: int) -> bool:
    """Whether no GPU copies and none is much warmer than at rest: "0, 0, 41" a line.

    Raises ValueError for what is no number, a GPU without a temperature of rest, and a missing one.
    """
    rows = [[int(word) for word in line.split(",")] for line in said.strip().splitlines()]
    if len(rows) != gpus or any(len(row) != 3 or f"GPU {row[0]}" not in rest for row in rows):
        raise ValueError(f"no line of each of {gpus} GPUs: {said[:80]!r}")
    return all(used == 0 and heat <= rest[f"GPU {i}"] + RISE_C for i, used, heat in rows)


OWN: dict[str, Callable[[Segment, StateView], tuple[MetricValue, ...]]] = {
    "facts": facts,
    "boot": boot,
    "cool_down": cool_down,
}
"""What b200kit does itself, by the reader's name."""
