"""The whole lock of vLLM's CUDA build, from a wheelhouse onto a node, by the ordinary stage."""

from __future__ import annotations

import re
import zipfile

from b200kit.readiness.expected import ENGINE_ROOM
from b200kit.supply.locks.lock_file import said
from tests.cuda_wheels.inside import NODE, Inside
from tests.e2e.driving import Outcome, on
from tests.lab.paths import lab_paths
from tests.lab.supply.cuda_wheels import FOLDER, LOCK
from tests.lab.supply.wheelfile import normalize
from tests.lab.supply.wheels import find_wheels, parse_lock

PINS = parse_lock(LOCK.read_text(encoding="utf-8"))


def test_run_installs_the_engine_and_ends_where_a_gpu_is_needed(run: Outcome) -> None:
    assert run.code == 1
    record = run.host(NODE)
    stages = {stage["name"]: stage for stage in record["stages"]}
    assert stages["serving"]["status"] == "changed", run.said[-3000:]
    # Where the lab may not raise limits, the probe comes to that one first (docs/lab.md).
    unlimited = on(NODE, "ulimit -H -l") == "unlimited"
    step = "cuda: libcuda.so.1: " if unlimited else "locked-memory: at most "
    assert f"replica 0 cannot start its engine: {step}" in run.described(NODE)


def test_node_has_the_locked_versions_and_nothing_else(bare: Inside) -> None:
    listed = on(NODE, f"{bare.venv}/bin/python -I -m pip list --format=freeze")
    there = dict(line.split("==") for line in listed.splitlines())
    locked = {pin.name: pin.version for pin in PINS}
    found = {normalize(name): version for name, version in there.items()}
    assert {name: found[name] for name in found if name != "pip"} == locked


def test_lock_lacks_only_what_its_first_lines_name(bare: Inside) -> None:
    text = LOCK.read_text(encoding="utf-8")
    named = [line.split(">=")[0] for line in said(text, "override")] + said(text, "left out")
    complaints = on(NODE, f"{bare.venv}/bin/python -I -m pip check").splitlines()
    lacking = [re.split(r" has requirement | requires ", line)[1] for line in complaints]
    assert [re.split(r"[>=,]", line)[0] for line in sorted(lacking)] == sorted(named)


def test_no_two_wheels_bring_the_same_file() -> None:
    """pip lets the later one win; so cuda-python 12.6 once replaced files of cuda-bindings 13."""
    folder = lab_paths().mirror / FOLDER
    brought: dict[str, list[str]] = {}
    for pin, wheel in find_wheels(PINS, folder).items():
        assert wheel is not None
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                brought.setdefault(name, []).append(pin.name)
    assert len(brought) > 40_000
    twice = {name: pins for name, pins in brought.items() if len(pins) > 1 and name[-1] != "/"}
    assert {tuple(sorted(pins)) for pins in twice.values()} == set()


def test_readiness_asks_for_the_room_that_it_took(bare: Inside) -> None:
    """The wheels lie beside what is unpacked of them until the last is installed."""
    wheels = sum(path.stat().st_size for path in (lab_paths().mirror / FOLDER).glob("*.whl"))
    installed = int(on(NODE, f"du -s --block-size=1 {bare.venv}").split()[0])
    assert wheels + installed < ENGINE_ROOM["cuda"] < 1.25 * (wheels + installed)
    assert on(NODE, f"test -e {bare.venv}/wheels || echo gone") == "gone"
