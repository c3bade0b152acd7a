"""deploy/burnin.py through the real CLI: refused where it serves, resumed, kept sealed, judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from b200kit.node.lib.documents import structure
from b200kit.run.document import AcceptanceResult
from b200kit.store.database import Store
from tests.fake.fleet import Fleet, Outcome
from tests.fake.machine import Machine
from tests.messages import assert_message
from tests.unit.acceptance import runs

# Two nodes are taken live first; what each part decides is held by its unit tests.
pytestmark = pytest.mark.process

SMOKE = ("--data", "accept_level=smoke")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Two nodes that b200.py took live, with pinned host keys."""
    fleet = Fleet(tmp_path_factory.mktemp("accept") / "site")
    for name in ("n01", "n02"):
        fleet.add(name)
        runs.key_of(fleet.folder, name)
    with (fleet.folder / "group_data" / "nodes.py").open("a") as file:
        file.write(f"ssh_known_hosts_file = {str(fleet.folder / 'known_hosts')!r}\n")
    assert fleet.run("b200.py").code == 0
    return fleet


def stopped(machine: Machine) -> Machine:
    """The machine with nothing of it at work."""
    for unit in machine.units.values():
        unit["active"] = "inactive"
    machine.start("nvidia-persistenced.service")
    machine.start("nvidia-fabricmanager.service")
    machine.log.clear()
    machine.save()
    return machine


@pytest.fixture
def fleet(live: Fleet, tmp_path: Path) -> Fleet:
    """Both nodes, which do not serve."""
    fleet = live.copy(tmp_path / "site", "n01", "n02")
    for name in fleet.names:
        stopped(fleet.machine(name))
    return fleet


def going(fleet: Fleet, name: str, **how: object) -> None:
    """Let a run on a node go so."""
    machine = fleet.machine(name)
    machine.acceptance |= how
    machine.save()


def results(fleet: Fleet, name: str) -> list[AcceptanceResult]:
    """What the site's store has of a node's runs."""
    lines = Store(fleet.folder / "b200.db").read("acceptance", name)
    return [structure(AcceptanceResult, json.loads(line.text)) for line in lines]


def folders(fleet: Fleet) -> list[str]:
    """What the site kept."""
    return sorted(path.name for path in (fleet.folder / "acceptance").glob("*"))


def one(fleet: Fleet, name: str = "n01") -> Outcome:
    """A run of smoke on one node."""
    return fleet.run("burnin.py", *SMOKE, "--limit", name)


def test_a_node_that_may_serve_is_refused(live: Fleet) -> None:
    run = one(live)
    assert (run.code, run.outcomes) == (1, {"n01": "failed"})
    assert_message(run.described("n01"))
    assert not live.machine("n01").ran("acceptance begin")


def test_dry_run_tells_what_would_run_and_changes_nothing(fleet: Fleet) -> None:
    dry = fleet.run("burnin.py", "--dry", *SMOKE, yes=False)
    assert_message(*(line for line in dry.stderr.splitlines() if "n01" in line and "would" in line))
    assert not fleet.machine("n01").ran("acceptance begin|systemctl enable")


def test_nodes_are_accepted_by_what_they_sealed_and_one_bad_host_stops_no_other(
    fleet: Fleet,
) -> None:
    going(fleet, "n02", outcomes={"all-reduce": "failed"})
    run = fleet.run("burnin.py", *SMOKE)
    assert run.code == 1, run.stderr
    assert run.outcomes == {"n01": "accepted", "n02": "not accepted"}
    names = [f"{name}-{runs.plan(name).id}" for name in fleet.names]
    assert folders(fleet) == sorted([*names, *(f"{name}.html" for name in names)])
    assert [one.fit for name in fleet.names for one in results(fleet, name)] == ["fit", "unfit"]
    machine = fleet.machine("n01")
    assert machine.ran("systemctl disable --now b200-acceptance.service")
    assert "acceptance/" in run.stdout
    assert names[0] in run.report
    assert {
        f["check"] for f in run.hosts["n02"]["verdict"]["findings"] if f["status"] == "fail"
    } == {"acceptance.all-reduce"}


def test_a_tool_that_is_not_there_is_unmeasured_and_exit_2(fleet: Fleet) -> None:
    going(fleet, "n01", missing=["gpu_burn"])
    run = one(fleet)
    assert (run.code, run.outcomes) == (2, {"n01": "unmeasured"})
    blocking = [f for f in run.hosts["n01"]["verdict"]["findings"] if f["status"] == "unmeasured"]
    assert {f["check"] for f in blocking} == {"acceptance.gemm-tensor"}
    assert "gpu-burn" in run.stdout


def test_a_node_that_reboots_meanwhile_is_waited_for(fleet: Fleet) -> None:
    going(fleet, "n01", reboots_at=3)
    boots = fleet.machine("n01").boots
    run = one(fleet)
    assert (run.code, run.outcomes) == (0, {"n01": "accepted"}), run.stderr
    machine = fleet.machine("n01")
    assert machine.boots == boots + 1
    booted, sent = (machine.log.index(machine.ran(p)[0]) for p in ("systemctl reboot", "archive"))
    assert "node.pyz observe" in machine.log[booted:sent]  # with the lock, which the boot ended
    assert len(machine.ran("acceptance begin")) == 1


def test_a_run_that_does_not_go_on_ends_with_a_line_and_is_gone_on_with(fleet: Fleet) -> None:
    going(fleet, "n01", breaks_at=2)
    run = one(fleet)
    assert (run.code, run.outcomes) == (1, {"n01": "failed"})
    assert_message(run.described("n01"))
    other = fleet.run("burnin.py", "--data", "accept_level=standard", "--limit", "n01")
    assert_message(other.described("n01"))
    going(fleet, "n01", breaks_at=None)
    assert one(fleet).outcomes == {"n01": "accepted"}
    assert len(fleet.machine("n01").ran("acceptance begin")) == 1


@pytest.mark.parametrize(
    "at",
    [
        "systemctl enable b200-acceptance",
        "acceptance archive",
        "systemctl disable --now b200-acceptance",
    ],
)
def test_a_killed_controller_s_run_is_gone_on_with_by_the_next(fleet: Fleet, at: str) -> None:
    machine = fleet.machine("n01")
    machine.hangs_at = at
    machine.save()
    process = fleet.begin("burnin.py", *SMOKE, "--limit", "n01")
    while not (fleet.folder / "n01" / "hanging").exists():
        assert process.poll() is None
    process.kill()
    process.communicate(timeout=60)
    machine = fleet.machine("n01")
    machine.hangs_at = ""
    machine.save()
    assert one(fleet).outcomes == {"n01": "accepted"}
    assert len(fleet.machine("n01").ran("acceptance begin")) == 1
    assert len(results(fleet, "n01")) == 1
    assert one(fleet).outcomes == {"n01": "accepted"}
    assert len(fleet.machine("n01").ran("acceptance begin")) == 2


def test_a_seal_by_another_key_is_not_kept(fleet: Fleet) -> None:
    (fleet.folder / "n01.key").unlink()
    pinned = (fleet.folder / "known_hosts").read_text()
    runs.key_of(fleet.folder, "n01")
    (fleet.folder / "known_hosts").write_text(pinned)
    run = one(fleet)
    assert (run.code, run.outcomes) == (1, {"n01": "failed"})
    assert_message(run.described("n01"))
    assert folders(fleet) == []
    assert results(fleet, "n01") == []
