"""Runs of a node as it would have left them, sealed with a key of the test's own."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from b200kit.node.acceptance import folder as folders
from b200kit.node.acceptance import table
from b200kit.node.acceptance.verdict import verdict
from b200kit.node.lib import documents, signature
from b200kit.node.state.acceptance import (
    AcceptancePlan,
    AcceptedMachine,
    Floor,
    Level,
    MetricValue,
    Outcome,
    SegmentLine,
    Step,
    Tool,
)
from tests.unit.node.acceptance import runs as made

GPUS = 8
UUIDS = tuple(f"GPU-5fa1b6c{n}-9d7e-4a21-8c33-1234567890ab" for n in range(GPUS))
SERIALS = tuple(f"16502401789{n}" for n in range(GPUS))
MACHINE = AcceptedMachine(
    "DGXB200-like", "KX9471520033", UUIDS, SERIALS, "580.105.08", "6.8.0-41-generic"
)
TOOL = Tool("/usr/bin/tool", "5c" * 32, "1.2")
PEER = 771.0
_USUAL = {
    "gpu_to_gpu_gb_per_s": PEER, "host_to_gpu_gb_per_s": 55.0, "gpu_to_host_gb_per_s": 54.0,
    "all_reduce_256_mib_gb_per_s": 646.0, "all_reduce_8_gib_gb_per_s": 838.0,
    "gemm_tensor_gflops": 1_700_000.0, "idle_temperature_c": 38.0,
}  # fmt: skip
Figures = Mapping[tuple[str, str], float]


def plan(
    node: str = "n01",
    level: Level = "smoke",
    floors: Mapping[str, Floor] | None = None,
    missing: tuple[str, ...] = (),
    started_at: str = "2026-12-01T08:00:00Z",
) -> AcceptancePlan:
    """A plan of a machine with eight GPUs and no disk."""
    tools = {test.tool for test in table.table().tests if test.tool and test.segments(level)[0]}
    programs = {name: f"/usr/bin/{name}" for name in tools - {*missing}}
    known = table.Facts(GPUS, (), 18, 5, programs)
    return AcceptancePlan(
        f"{started_at.replace('-', '').replace(':', '')}-{level}", node, level, started_at, MACHINE,
        dict.fromkeys(programs, TOOL),
        {name: table.table().tools[name].brings for name in tools & {*missing}},
        table.not_applicable(level, known), floors or {}, table.steps(level, known),
    )  # fmt: skip


def line(
    of: AcceptancePlan, step: Step, outcome: Outcome = "done", figures: Figures | None = None
) -> SegmentLine:
    """A segment that ended so; *figures* are those that differ, by metric and subject."""
    test = table.table().test(step.test)
    values = [
        MetricValue(
            metric, subject, (figures or {}).get((metric, subject), usual(metric)), unit(metric)
        )
        for metric in test.metrics
        for subject in subjects(metric)
    ]
    if test.loads == "gpu":
        values += [
            MetricValue("hardware_thermal_slowdown", f"GPU {n}", 0.0, "") for n in range(GPUS)
        ]
    is_missing = test.tool in of.missing
    ended: Outcome = "missing" if is_missing else outcome
    raw = f"raw/{step.number:03}-{step.test}-{step.segment}.out"
    return made.line(
        step, ended, values=tuple(values) if ended == "done" else (), boot_id="4f0c3b6e-0f5b",
        raw={raw: hashlib.sha256(printed(step)).hexdigest()}, began_at=of.started_at,
    )  # fmt: skip


def printed(step: Step) -> bytes:
    """What its tool printed: with a name, a serial number and addresses in it."""
    return (
        f"{step.test} on n01.pod7.example, serial {MACHINE.serial}, {UUIDS[2]}\n"
        f"peer 10.20.30.41 at 9c:63:c0:11:22:33, /home/hannelore\nok {step.number}\n"
    ).encode()


def usual(metric: str) -> float:
    """A sound figure."""
    return _USUAL.get(metric, 8.0)


def unit(metric: str) -> str:
    """Its unit."""
    return "GB/s" if metric.endswith("_gb_per_s") else "Gflop/s" if "flop" in metric else ""


def subjects(metric: str) -> list[str]:
    """What a metric is of."""
    if metric.startswith("all_reduce"):
        return ["8 GPUs"]
    return [f"GPU {n}" for n in range(GPUS)]


def key_of(folder: Path, node: str = "n01") -> Path:
    """A host key of a node, which known_hosts beside it pins; made once."""
    key = folder / f"{node}.key"
    if not key.exists():
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)]
        subprocess.run(words, check=True)
        with (folder / "known_hosts").open("a") as hosts:
            hosts.write(f"{node} {key.with_suffix('.key.pub').read_text()}")
    return key


def write(path: Path, of: AcceptancePlan, lines: list[SegmentLine]) -> None:
    """Plan, lines and raw files of a run, and its verdict."""
    (path / "raw").mkdir(parents=True)
    (path / folders.PLAN).write_bytes(documents.to_bytes(of))
    text = (documents.to_bytes(each, indent=None) + b"\n" for each in lines)
    (path / folders.LINES).write_bytes(b"".join(text))
    steps = {step.number: step for step in of.steps}
    for each in lines:
        for name in each.raw:
            (path / name).write_bytes(printed(steps[each.step]))
    (path / folders.VERDICT).write_bytes(documents.to_bytes(verdict(of, lines)))


def seal(path: Path, key: Path, namespace: str = signature.ACCEPTANCE) -> Path:
    """Sign what lies there."""
    content = folders.sums(path)
    (path / folders.SUMS).write_bytes(content)
    (path / folders.SIGNATURE).write_bytes(signature.sign(content, key, namespace))
    return path


def sealed(
    folder: Path,
    of: AcceptancePlan,
    outcomes: Mapping[str, Outcome] | None = None,
    figures: Figures | None = None,
) -> Path:
    """A finished run in a folder; some of its tests ended otherwise, some figures are others."""
    path = folder / f"{of.node}-{of.id}"
    ended = outcomes or {}
    lines = [line(of, step, ended.get(step.test, "done"), figures) for step in of.steps]
    write(path, of, lines)
    return seal(path, key_of(folder, of.node))


def packed(path: Path, run: str) -> str:
    """What the node prints of it."""
    inner = path.rename(path.with_name(run))
    try:
        content = folders.archive(inner)
    finally:
        inner.rename(path)
    digest = hashlib.sha256(content).hexdigest()
    return f"{base64.b64encode(content).decode()}\n{json.dumps({'sha256': digest})}"
