"""The real CLI on the real entry files over a fleet where almost everything is wrong somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib import lock
from b200kit.node.lib.documents import unstructure
from b200kit.run import process
from tests.fake.fleet import CANARIES, Fleet, Outcome
from tests.messages import TIME, assert_message
from tests.subtests import in_subtests
from tests.unit import corpus, states

SERVING = r"systemctl (start|restart) vllm|start haproxy|restart haproxy|-m pip install"
MOST_COMMANDS = 8
SICK = {
    "no-nvlink": (
        "a GPU is off NVLink and only its links show it",
        "GPU 2 has no NVLink: 0 of 18 links up",
    ),
    "in-progress": ("one GPU's registration is in progress", "GPU 5"),
    "seven-gpus": ("NVML lacks a GPU that is on the bus", "0000:cc:00.0"),
    "hot": ("hardware thermal slowdown", "thermal"),
}
# What a broken node program may answer, and what is reported.
NONSENSE = {
    "not-json": ("Traceback (most recent call last)", "observe: the observation is not JSON"),
    "nothing": ("", "observe: the observation is not JSON"),
    "a-list": ("[1, 2, 3]", "observe: the observation is not a document"),
    "deep": ("[" * 100_000 + "]" * 100_000, "observe: "),
    "no-lock": ('{"schema": "b200kit/node-state/1"}', "observe: its lock cannot be taken"),
    "wrong-types": (
        json.dumps(
            dict.fromkeys(states.healthy(), 7)
            | {"schema": "b200kit/node-state/1", "gpus": [1], "lock": {"acquired": True}}
        ),
        "",
    ),
    "huge": (
        json.dumps({"schema": "x", "lock": {"acquired": True}, "files": {"/x": "y" * 4_000_000}}),
        "observe: the observation is of schema 'x'",
    ),
}


ALICE = {"owner": "alice@elsewhere pid 7", "run": "hers"}
LIVE = ["healthy", "taken-over"]


def rocky() -> dict[str, Any]:
    """The hardware of a sound node with a system that is not supported."""
    hardware = states.healthy()
    hardware["host"]["os"] = {"id": "rocky", "version_id": "9.4", "pretty": "Rocky Linux 9.4"}
    return hardware


def sick(case: str) -> dict[str, Any]:
    """The hardware of a node with a fault of the corpus."""
    return corpus.named(case).state()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Bare nodes: one sound, some sick, some mad, one off and one that dies."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet") / "site")
    fleet.add("healthy")
    for name, (fault, _) in SICK.items():
        fleet.add(name, sick(fault))
    for name, (answer, _) in NONSENSE.items():
        machine = fleet.add(name)
        machine.answers = {"node.pyz observe": (True, answer)}
        machine.save()
    fleet.add("rocky", rocky())
    off, dying, foreign = fleet.add("off"), fleet.add("dying"), fleet.add("foreign-key")
    off.reachable = False
    dying.dies_at = "packages install .*nvidia-open"
    foreign.answers = {
        "packages install": (False, "E: The repository 'x ./ InRelease' is not signed.")
    }
    mistake = fleet.add("mistake")
    mistake.hardware["gpus"] = [3]
    for machine in (off, dying, foreign, mistake):
        machine.save()
    # Another person works on one; a run on another was killed.
    lock.request(ALICE, fleet.add("busy").folder)
    dead = unstructure(process.this()) | {"pid": 4_000_000}
    killed = {"owner": "me@here pid 4000000", "process": dead, "run": "killed"}
    lock.request(killed, fleet.add("taken-over").folder)
    return fleet


@pytest.fixture(scope="module")
def first(fleet: Fleet) -> Outcome:
    """The first run over the whole fleet, printing all that pyinfra can print."""
    return fleet.run("b200.py", "-vvv", "--debug", "--diff")


def test_run_with_few_live_nodes_of_many_exits_one(first: Outcome) -> None:
    assert first.code == 1
    live = [name for name, outcome in first.outcomes.items() if outcome == "live"]
    assert sorted(live) == LIVE, first.stderr[-3000:]


def test_exactly_the_healthy_nodes_get_a_command_that_serves(fleet: Fleet, first: Outcome) -> None:
    assert first.code == 1
    served = [name for name in fleet.names if fleet.machine(name).ran(SERVING)]
    assert sorted(served) == LIVE


@in_subtests("name", SICK)
def test_red_node_is_refused_at_the_gate_by_the_name_of_its_fault(
    fleet: Fleet, first: Outcome, name: str
) -> None:
    assert first.outcomes[name] == "red"
    assert first.hosts[name]["stage"] == "gate"
    said = json.dumps(first.hosts[name]["verdict"]["findings"]) + first.described(name)
    assert SICK[name][1] in said
    assert not fleet.machine(name).is_active("vllm@0.service")


@in_subtests("name", NONSENSE)
def test_observation_that_makes_no_sense_drops_its_own_host(
    fleet: Fleet, first: Outcome, name: str
) -> None:
    assert first.outcomes[name] == "failed", first.described(name)
    assert NONSENSE[name][1] in first.described(name)
    assert fleet.machine(name).ran(SERVING) == []


def test_node_that_is_off_is_unreachable(fleet: Fleet, first: Outcome) -> None:
    assert first.outcomes["off"] == "unreachable"
    assert "timed out" in first.described("off")
    assert fleet.machine("off").log == []


def test_node_that_dies_fails_where_it_died(first: Outcome) -> None:
    assert first.outcomes["dying"] == "failed"
    assert first.described("dying").startswith("driver: connection lost: ")


def test_repository_of_another_key_fails_the_first_installation(first: Outcome) -> None:
    assert first.outcomes["foreign-key"] == "failed"
    assert_message(first.described("foreign-key"))


def test_unsupported_system_is_refused_before_any_change(fleet: Fleet, first: Outcome) -> None:
    assert_message(first.described("rocky"))
    machine = fleet.machine("rocky")
    assert machine.ran("put|packages install|systemctl") == []
    assert (machine.files, machine.packages) == ({}, {})


def test_node_another_person_works_on_is_left_alone(fleet: Fleet, first: Outcome) -> None:
    assert first.outcomes["busy"] == "failed"
    assert_message(first.described("busy"), TIME=TIME)
    machine = fleet.machine("busy")
    assert machine.ran("put|packages install|systemctl") == []
    assert "hers" in (machine.folder / "lock.json").read_text()


def test_lock_of_a_killed_run_does_not_stop_the_next(fleet: Fleet, first: Outcome) -> None:
    assert first.outcomes["taken-over"] == "live"
    assert not (fleet.machine("taken-over").folder / "lock.json").exists()


def test_mistake_of_ours_on_one_node_does_not_stop_the_others(fleet: Fleet, first: Outcome) -> None:
    assert first.outcomes["healthy"] == "live"
    assert first.outcomes["mistake"] in ("failed", "red")
    assert fleet.machine("mistake").ran(SERVING) == []


def test_nothing_is_reported_by_way_of_a_traceback(first: Outcome) -> None:
    # At --debug pyinfra prints every message there is; ours are one line each.
    lines = [line for line in first.stderr.splitlines() if " FAILED: " in line]
    failed = [name for name, outcome in first.outcomes.items() if outcome == "failed"]
    assert sorted(line.split()[0] for line in lines) == sorted(failed)
    assert {*NONSENSE, "dying", "foreign-key", "rocky", "busy"} <= set(failed)
    assert "Traceback (most recent call last):" not in first.stdout


@in_subtests("canary", CANARIES.values())
def test_secret_is_in_nothing_printed_logged_or_reported(
    fleet: Fleet, first: Outcome, canary: str
) -> None:
    assert canary not in first.stdout + first.stderr
    assert canary not in first.report
    assert all(canary not in "\n".join(fleet.machine(name).log) for name in fleet.names)
    kept = fleet.machine("healthy").files
    assert [kept[f"/etc/b200kit/secrets/{name}"]["mode"] for name in ("api_key", "hf_token")] == [
        0o600,
        0o600,
    ]


def test_second_run_of_the_healthy_node_changes_nothing(fleet: Fleet, first: Outcome) -> None:
    before = fleet.machine("healthy")
    again = fleet.run("b200.py", "--limit", "healthy")
    after = fleet.machine("healthy")
    assert (again.code, again.outcomes) == (0, {"healthy": "live"})
    assert again.hosts["healthy"]["changes"] == 0
    new = after.log[len(before.log) :]
    assert len(new) == again.hosts["healthy"]["commands"] <= MOST_COMMANDS
    assert not [line for line in new if re.search("systemctl| put|apt-trial", line)]
    assert (after.files, after.units) == (before.files, before.units)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fleet, Outcome]:
    """Two sound nodes and one without NVLink, deployed; tests begin with copies of them."""
    fleet = Fleet(tmp_path_factory.mktemp("deployed") / "site")
    for name in ("n01", "n03"):
        fleet.add(name)
    fleet.add("n02", sick(SICK["no-nvlink"][0]))
    return fleet, fleet.run("b200.py", "--no-wait")


def test_no_wait_does_not_hide_a_failure(deployed: tuple[Fleet, Outcome]) -> None:
    run = deployed[1]
    assert run.code == 1
    assert run.outcomes == {"n01": "live", "n02": "red", "n03": "live"}


@pytest.fixture
def live(deployed: tuple[Fleet, Outcome], tmp_path: Path) -> Fleet:
    """One live node."""
    return deployed[0].copy(tmp_path / "site", "n01")


def test_only_unreachable_nodes_exit_one(live: Fleet) -> None:
    live.names.append("n03")
    for name in live.names:
        machine = live.machine(name)
        machine.reachable = False
        machine.save()
    run = live.run("b200.py")
    assert run.code == 1
    assert set(run.outcomes.values()) == {"unreachable"}


def planned(run: Outcome, name: str, stage: str) -> list[str]:
    """What a stage would do on a node."""
    text = re.sub(r"the last one took [^)]+", "the last one took TIME", run.stderr)
    return [line for line in text.splitlines() if line.startswith(f"{name}  {stage} ")]


def test_dry_run_prints_the_plan_with_its_reboot_and_changes_nothing(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "site")
    fleet.add("n01")
    fleet.add("n02", sick(SICK["no-nvlink"][0]))
    fleet.add("n03", rocky())
    run = fleet.run("b200.py", "--dry", yes=False)
    assert run.code == 1, run.stderr
    for name in fleet.names:
        machine = fleet.machine(name)
        assert machine.files == machine.packages == machine.units == {}
        assert machine.boots == 1
        assert not machine.ran("put|packages install|systemctl")
        assert not (machine.folder / "lock.json").exists()
    for name in ("n01", "n02"):
        assert_message(*planned(run, name, "driver"), *planned(run, name, "reboot"))
    assert "LIVE" not in run.stderr
    # An unsupported system is refused, and nothing is planned for it.
    [line] = [line for line in run.stderr.splitlines() if line.startswith("n03 ")]
    assert_message(line)


def test_live_node_that_turns_red_stops_serving_and_a_run_of_only_red_nodes_exits_one(
    live: Fleet,
) -> None:
    machine = live.machine("n01")
    machine.hardware = sick(SICK["no-nvlink"][0])
    machine.save()
    run = live.run("b200.py")
    assert (run.code, run.outcomes) == (1, {"n01": "red"})
    machine = live.machine("n01")
    stopped = [
        "b200-agent.service",
        "haproxy.service",
        "vllm.target",
        "vllm@0.service",
        "vllm@1.service",
    ]
    assert not any(machine.is_active(unit) for unit in stopped)


@pytest.mark.process
def test_smoke_measures_a_live_node_again_and_refuses_a_red_one(live: Fleet) -> None:
    live.names += ["n02", "n03"]
    moved = live.machine("n03")
    moved.write("/etc/systemd/system/vllm@1.service.d/pinning.conf", b"[Service]\n")
    moved.save()
    run = live.run("smoke.py")
    assert run.code == 1
    assert run.outcomes == {"n01": "live", "n02": "red", "n03": "red"}
    assert len(live.machine("n01").ran("node.pyz measure")) == 2
    assert live.machine("n02").ran("node.pyz measure") == []
    assert_message(run.described("n03"))
    assert live.machine("n03").ran("systemctl stop .*haproxy.service")
