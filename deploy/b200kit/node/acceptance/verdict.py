"""What the lines of an acceptance run prove about the hardware. Pure.

One finding a test at least, named "acceptance.TEST". No figure, no pass. A first failure stands,
whatever a second attempt says: that only confirms it, and decides the action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from b200kit.node.acceptance import counters
from b200kit.node.acceptance.table import AcceptanceTest, table
from b200kit.node.state.acceptance import AcceptancePlan, Floor, Fold, SegmentLine, Step
from b200kit.node.state.clock_reasons import SLOWED
from b200kit.node.state.verdict import Action, Finding, Status, Verdict

FOLDS: dict[Fold, Callable[[list[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "last": lambda values: values[-1],
}
NEAR = 0.02
"""By how much of itself bandwidth may be lower after the soak, where all pairs agreed before."""
WITHOUT_NVLS = ("all_reduce_8_gib_gb_per_s", 650.0, 750.0)
"""GB/s that rings carry on 8x B200: 674 to 682 with NVLS off (stas00/ml-engineering), 838 with."""
HARD = "hardware_thermal_slowdown"
SOFT = tuple(words.replace(" ", "_") for words in SLOWED.values() if "hardware t" not in words)

Figures = dict[tuple[str, str], tuple[float, str]]
"""Metric and subject to the folded figure and its unit."""


def verdict(plan: AcceptancePlan, lines: Sequence[SegmentLine]) -> Verdict:
    """The verdict on a run, complete or not; the same for everybody who has its folder."""
    by_test: dict[str, list[Step]] = {}
    for step in plan.steps:
        by_test.setdefault(step.test, []).append(step)
    left_out = {f"acceptance.{name}": why for name, why in plan.not_applicable.items()}
    figures = {name: folded(line for line in lines if line.test == name) for name in by_test}
    findings: list[Finding] = []
    for name, steps in by_test.items():
        own = [line for line in lines if line.test == name]
        found = [*_ended(plan, steps, own), *_judged(name, plan, lines, figures)]
        said = f"{name}: {len(own)} segments, {len(figures[name])} figures, as they should be"
        bad = any(one.status is not Status.PASS for one in found)
        findings += [
            one.with_check(f"acceptance.{name}") for one in found + [Finding(said)] * (not bad)
        ]
    for metric, floor in plan.floors.items():
        owners = [test.name for test in table().tests if metric in test.metrics]
        if not owners:
            findings.append(Finding(
                f"no test measures {metric}", Status.UNMEASURED, expected=f"{floor.value:g}",
                check="acceptance.floors",
            ))  # fmt: skip
        elif not by_test.keys() & {*owners}:
            why = filter(None, map(plan.not_applicable.get, owners))
            left_out[f"acceptance.floors.{metric}"] = next(why, f"no part of level {plan.level}")
    findings += (one.with_check("acceptance.counters") for one in _counted(plan, lines))
    return Verdict(tuple(findings), left_out)


def _ended(
    plan: AcceptancePlan, steps: Sequence[Step], own: Sequence[SegmentLine]
) -> Iterator[Finding]:
    """How the segments of a test ended, where not well."""
    for step in steps:
        attempts = [line for line in own if line.step == step.number]
        name = f"{step.test} {step.segment}"
        outcomes = [line.outcome for line in attempts]
        bad = [line for line in attempts if line.outcome in ("failed", "hung")]
        if not attempts:
            yield Finding(f"{name} was not run", Status.UNMEASURED)
        elif bad:
            is_confirmed = len(bad) > 1
            said = f"{'' if is_confirmed else 'not '}confirmed by a second run"
            action = _action(bad[-1]) if is_confirmed else Action.MONITOR
            yield Finding(
                f"{name} {bad[0].outcome} ({said})", Status.FAIL, read=bad[0].why, action=action
            )
        elif outcomes[-1] == "missing":
            tool = table().test(step.test).tool
            yield Finding(
                f"{name} was not run: {tool} is not installed", Status.UNMEASURED,
                read=attempts[-1].why, remedy=plan.missing.get(tool, ""),
            )  # fmt: skip
        elif outcomes[-1] != "done":
            yield Finding(
                f"{name} gave no usable result ({outcomes[-1]}): no word on the hardware",
                Status.UNMEASURED, read=attempts[-1].why,
            )  # fmt: skip


def _action(line: SegmentLine) -> Action:
    """What a confirmed fault asks for: a hang may be cured, a wrong result is a part's."""
    if line.outcome == "failed":
        return Action.REPLACE
    return Action.RESET_GPU if table().test(line.test).loads == "gpu" else Action.REBOOT


def _judged(
    name: str,
    plan: AcceptancePlan,
    lines: Sequence[SegmentLine],
    figures: Mapping[str, Figures],
) -> Iterator[Finding]:
    """The figures of a test, by its floors, the test it must be like, and the GPUs' clocks."""
    test, own = table().test(name), figures[name]
    for metric, floor in plan.floors.items():
        if metric in test.metrics:
            yield from _held(metric, floor, own)
    if test.near:
        yield from _near(own, figures.get(test.near, {}), test)
    if test.same_as:
        yield from _same(test, lines)
    if test.loads == "gpu" and any(line.test == name and line.outcome == "done" for line in lines):
        yield from _clocks(own, len(plan.machine.gpus))


def folded(lines: Iterable[SegmentLine]) -> Figures:
    """Every figure of the segments that ended well, folded as the table says."""
    series: dict[tuple[str, str], list[float]] = {}
    units = {}
    for line in lines:
        for value in line.values if line.outcome == "done" else ():
            series.setdefault((value.metric, value.subject), []).append(value.value)
            units[value.metric] = value.unit
    return {
        (metric, subject): (float(FOLDS[table().fold(metric)](values)), units[metric])
        for (metric, subject), values in series.items()
    }


def _held(metric: str, floor: Floor, own: Figures) -> Iterator[Finding]:
    """A limit, held by every subject of its metric."""
    expected = f"{floor.holds} {floor.value:g} {floor.unit}"
    source = f"{floor.source} ({floor.kind}, {floor.date})"
    subjects = {subject: found for (name, subject), found in own.items() if name == metric}
    if not subjects:
        yield Finding(
            f"{metric} has no figure", Status.UNMEASURED, expected=expected, source=source
        )
    for subject, (value, unit) in subjects.items():
        read = f"{value:g} {unit}".strip()
        if unit != floor.unit:
            yield Finding(
                f"{metric} is in {unit or 'no unit'}, its limit in {floor.unit}",
                Status.UNMEASURED, subject, read, expected, source,
            )  # fmt: skip
            continue
        low = floor.holds == "at least" and value < floor.value
        if low or (floor.holds == "at most" and value > floor.value):
            summary = f"{metric} of {subject} is too {'low' if low else 'high'}"
            action = Action.REPLACE
            name, least, most = WITHOUT_NVLS
            if metric == name and least <= value < most:
                summary += ": as much as rings carry, so NVLS is lost (multicast, fabric manager)"
                action = Action.REBOOT
            yield Finding(summary, Status.FAIL, subject, read, expected, source, action)


def _near(after: Figures, before: Figures, test: AcceptanceTest) -> Iterator[Finding]:
    """Bandwidth after the soak, of every subject within the spread of all before it."""
    for metric in test.metrics:
        earlier = {subject: v for (name, subject), (v, _) in before.items() if name == metric}
        later = {subject: v for (name, subject), (v, _) in after.items() if name == metric}
        if not earlier or earlier.keys() != later.keys():
            yield Finding(f"{metric} cannot be compared with {test.near}", Status.UNMEASURED)
            continue
        middle = median(earlier.values())
        spread = max(NEAR, (max(earlier.values()) - min(earlier.values())) / middle)
        for subject, value in later.items():
            least = earlier[subject] * (1 - spread)
            if value < least:
                yield Finding(
                    f"{metric} of {subject} fell after the load", Status.FAIL, subject,
                    f"{value:g}, {earlier[subject]:g} before", f"at least {least:g}",
                    f"the spread of {test.near}", Action.MONITOR,
                )  # fmt: skip


def _same(test: AcceptanceTest, lines: Sequence[SegmentLine]) -> Iterator[Finding]:
    """What is counted on each boot, against what was counted before it."""
    before = {line.segment: line.values for line in lines if line.test == test.same_as}
    for line in lines:
        if line.test != test.name or line.outcome != "done":
            continue
        then, now = (
            {(v.metric, v.subject): v.value for v in values if v.metric in test.metrics}
            for values in (before.get(line.segment, ()), line.values)
        )
        for metric, subject in sorted(then.keys() | now.keys()):
            was, found = then.get((metric, subject)), now.get((metric, subject))
            if was is None:
                yield Finding(f"{metric} of {subject} was not known before", Status.UNMEASURED)
            elif found != was:
                yield Finding(
                    f"{metric} of {subject} is another after boot {line.segment}", Status.FAIL,
                    subject, "none" if found is None else f"{found:g}", f"{was:g}",
                    action=Action.POWER_CYCLE,
                )  # fmt: skip


def _clocks(own: Figures, gpus: int) -> Iterator[Finding]:
    """Whether heat slowed a GPU while it was loaded."""
    for index in range(gpus):
        subject = f"GPU {index}"
        if (HARD, subject) not in own:
            yield Finding(
                "whether heat slowed it is unknown", Status.UNMEASURED, subject,
                "NVML gave no reasons for its clocks during the load",
            )  # fmt: skip
        elif own[HARD, subject][0]:
            yield Finding(
                "the hardware slowed it for heat", Status.FAIL, subject, action=Action.REPLACE
            )
        elif slowed := [name for name in SOFT if own.get((name, subject), (0,))[0]]:
            names = ", ".join(name.replace("_", " ") for name in slowed)
            yield Finding(f"slowed: {names}", Status.PASS, subject, action=Action.MONITOR)


def _counted(plan: AcceptancePlan, lines: Sequence[SegmentLine]) -> Iterator[Finding]:
    """Hardware counters that grew, or of which nobody knows whether they did."""
    grown = counters.growth(lines)
    for name in counters.lacking(len(plan.machine.gpus), grown):
        remedy = _NO_EDAC if name.startswith("edac") else ""
        yield replace(_counter(name, "was never read", Status.UNMEASURED), remedy=remedy)
    for name, by in grown.items():
        if by is None:
            yield _counter(name, "went backwards or was not read", Status.UNMEASURED)
        elif by and name.partition("/")[0] in counters.CORRECTED:
            yield _counter(name, f"grew by {by}, corrected", Status.PASS, Action.MONITOR)
        elif by:
            yield _counter(name, f"grew by {by}", Status.FAIL, Action.REPLACE)
    if grown and not any(grown.values()):
        yield Finding(f"none of {len(grown)} hardware counters grew")


_NO_EDAC = (
    "errors of host memory come from the processor's EDAC driver: modprobe i10nm_edac (Intel), "
    "amd64_edac (AMD); a virtual machine has none"
)


def _counter(name: str, said: str, status: Status, action: Action = Action.NONE) -> Finding:
    counter, _, subject = name.partition("/")
    return Finding(f"{counter} {said}", status, subject, action=action)
