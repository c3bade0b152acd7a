"""deploy/b200.py over a fleet that serves: waves, canary, rollback, and what is told before."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from b200kit import cli
from b200kit.inventory.keys.proof import Proof
from b200kit.node.bandwidth import tests
from b200kit.node.maintenance.removal import PARTS
from b200kit.reprovision.ledger import Transactions
from b200kit.reprovision.planned_change import Work
from b200kit.reprovision.states import RepairState
from b200kit.stages import smoke
from b200kit.store import database
from b200kit.store.database import Store
from tests.fake import proofs
from tests.fake.fleet import Fleet, Outcome, outcome_of
from tests.messages import TIME, assert_message
from tests.unit import corpus

GOOD = ("--data", "max_num_seqs=64")
# A driver that these machines load and do not run: their NVML goes on saying the former one.
BAD = ("--data", "driver=580.126.20")
MEASURED = ("--data", "bandwidth=required", "--data", 'rollout={"watch_s": 0, "floor": 1}')
NO_NVLINK = corpus.named("a GPU is off NVLink and only its links show it").state()
NAMES = ("n1", "n2", "n3")
FLEET = {"port": 8100}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Three nodes that serve, each with the fleet's endpoint."""
    fleet = Fleet(tmp_path_factory.mktemp("rollout") / "site")
    for name in NAMES:
        fleet.add(name)
    site = fleet.folder / "group_data" / "nodes.py"
    more = f"rollout = {{'watch_s': 0}}\nfleet = {FLEET}\ngateway = {{'tls': 'off'}}\n"
    site.write_text(f"{site.read_text()}{more}fabric_deadline_s = 1\n")
    run = fleet.run("b200.py")
    assert run.code == 0, run.stderr
    return fleet


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Transactions:
    """The transactions of the test."""
    monkeypatch.setenv(database.VARIABLE, str(tmp_path / "b200.db"))
    monkeypatch.setenv("B200_EVIDENCE", str(tmp_path / "evidence"))
    return Transactions(Store(tmp_path / "b200.db"))


@pytest.fixture
def fleet(served: Fleet, tmp_path: Path) -> Fleet:
    """The same, for one test."""
    return begun(served.copy(tmp_path / "site", *NAMES))


def begun(fleet: Fleet) -> Fleet:
    """Nothing is in the logs of its machines yet."""
    for name in fleet.names:
        machine = fleet.machine(name)
        machine.log.clear()
        machine.save()
    return fleet


def changed(fleet: Fleet) -> list[str]:
    """Nodes that a command of this run changed."""
    return [
        n for n in fleet.names if fleet.machine(n).ran("put|packages install|systemctl|quarantine")
    ]


def order(run: Outcome) -> list[str]:
    """Each node's leaving and coming back, in the order of the run."""
    found = re.findall(r"^(n\d)  (quarantine|LIVE) ", run.stderr, re.MULTILINE)
    return list(dict.fromkeys(f"{name} {what}" for name, what in found))


def rollout_lines(run: Outcome) -> list[str]:
    """What a dry run says of the whole."""
    return [line for line in run.stderr.splitlines() if line.startswith("rollout ")]


def states(site: Transactions) -> dict[str, str]:
    """How the last change of each node that was taken out ended."""
    changes = {n: site.read(n).change for n in site.nodes()}
    return {name: change.outcome for name, change in changes.items() if change}


def test_good_change_goes_node_after_node_and_a_second_run_changes_nothing(
    fleet: Fleet, site: Transactions
) -> None:
    run = fleet.run("b200.py", *GOOD)
    assert run.code == 0, run.stderr[-3000:]
    assert order(run) == [f"{n} {what}" for n in NAMES for what in ("quarantine", "LIVE")]
    assert states(site) == dict.fromkeys(NAMES, "done")
    begun(fleet)
    again = fleet.run("b200.py", *GOOD)
    assert (again.code, changed(fleet)) == (0, [])
    assert [len(fleet.machine(name).log) for name in NAMES] == [2] * len(NAMES)


def test_nodes_of_a_wave_go_together_and_the_canary_goes_alone(
    fleet: Fleet, site: Transactions
) -> None:
    # The second and third node wait for each other before they come back.
    for name in ("n2", "n3"):
        machine = fleet.machine(name)
        machine.meets_at = "quarantine release"
        machine.save()
    limits = json.dumps({"watch_s": 0, "max_out": 2})
    run = fleet.run("b200.py", *GOOD, "--data", f"rollout={limits}")
    assert run.code == 0, run.stderr[-3000:]
    waves = {name: site.read(name).change for name in NAMES}
    assert [change.wave for change in waves.values() if change] == [1, 2, 2]


def test_bad_change_stops_at_the_canary_which_serves_again_what_it_served(
    fleet: Fleet, site: Transactions
) -> None:
    run = fleet.run("b200.py", *BAD)
    assert run.code == 1
    assert run.outcomes == {"n1": "rolled back", "n2": "held", "n3": "held"}
    assert changed(fleet) == ["n1"]
    canary = fleet.machine("n1")
    assert canary.packages["nvidia-open"]["version"].startswith("580.105.08")
    assert canary.is_active("vllm@0.service")
    assert canary.is_active("haproxy.service")
    assert states(site) == {"n1": "rolled back"}
    assert_message(run.described("n1"), run.described("n2"))


@pytest.mark.process
def test_stopped_rollout_stays_so_until_it_is_resumed_or_is_another(
    fleet: Fleet, site: Transactions
) -> None:
    assert fleet.run("b200.py", *BAD, "--limit", "n1").outcomes == {"n1": "rolled back"}
    begun(fleet)
    again = fleet.run("b200.py", *BAD)
    assert set(again.outcomes.values()) == {"held"}
    assert changed(fleet) == []
    resumed = fleet.run("b200.py", *BAD, "--data", "rollout_action=resume")
    assert resumed.outcomes["n1"] == "rolled back"
    # Another change is another matter.
    assert fleet.run("b200.py", *GOOD, "--limit", "n2").code == 0
    assert states(site) == {"n1": "rolled back", "n2": "done"}


@pytest.mark.process
def test_red_of_the_machine_itself_stops_no_rollout(fleet: Fleet, site: Transactions) -> None:
    machine = fleet.machine("n1")
    machine.hardware = NO_NVLINK
    machine.save()
    limits = json.dumps({"watch_s": 0, "floor": 1})
    run = fleet.run("b200.py", *GOOD, "--data", f"rollout={limits}")
    assert run.outcomes == {"n1": "quarantined", "n2": "live", "n3": "live"}
    assert not fleet.machine("n1").is_active("haproxy.service")
    assert states(site) == {"n1": ""} | dict.fromkeys(NAMES[1:], "done")
    change = site.read("n1").change
    assert change
    assert change.own
    assert_message(run.described("n1"), TIME=TIME)


def test_floor_holds_nodes_back(fleet: Fleet, site: Transactions) -> None:
    limits = json.dumps({"watch_s": 0, "floor": 3})
    run = fleet.run("b200.py", *GOOD, "--data", f"rollout={limits}")
    assert set(run.outcomes.values()) == {"held"}
    assert changed(fleet) == []
    assert states(site) == {}


@pytest.mark.process
def test_node_that_serves_nobody_waits_for_no_wave(fleet: Fleet, site: Transactions) -> None:
    fleet.add("n4")
    run = fleet.run("b200.py", *GOOD, "--limit", "n1", "--limit", "n4")
    assert run.code == 0, run.stderr[-3000:]
    assert order(run) == ["n4 LIVE", "n1 quarantine", "n1 LIVE"]
    assert "n4" not in site.nodes()


@pytest.mark.process
@pytest.mark.parametrize(("rest", "waits"), [(False, False), (True, True), (None, True)])
def test_node_that_a_person_has_drained_waits_for_no_wave(
    fleet: Fleet, site: Transactions, rest: bool | None, waits: bool
) -> None:
    machine = fleet.machine("n1")
    taken = [{"takes_requests": False}, {"takes_requests": rest}]
    machine.answers = {r"^node\.pyz standing": (True, json.dumps({"replicas": taken}))}
    machine.save()
    run = fleet.run("b200.py", *GOOD, "--limit", "n1")
    assert run.code == 0, run.stderr[-3000:]
    assert ("n1" in site.nodes()) is waits


@pytest.mark.process
def test_node_whose_gateway_is_stopped_waits_for_no_wave(fleet: Fleet, site: Transactions) -> None:
    machine = fleet.machine("n1")
    machine.units["haproxy.service"]["active"] = "inactive"
    machine.save()
    run = fleet.run("b200.py", *GOOD, "--limit", "n1")
    assert run.code == 0, run.stderr[-3000:]
    assert "n1" not in site.nodes()


@pytest.mark.process
def test_change_that_interrupts_nothing_needs_no_wave(fleet: Fleet, site: Transactions) -> None:
    run = fleet.run("b200.py", "--data", "fleet_weight=50")
    assert run.code == 0, run.stderr[-3000:]
    assert changed(fleet) == list(NAMES)
    assert not site.nodes()


@pytest.mark.process
def test_model_is_fetched_on_every_node_before_the_first_leaves(
    fleet: Fleet, site: Transactions
) -> None:
    two = ("--limit", "n1", "--limit", "n2")
    run = fleet.run("b200.py", "--data", f"model_revision={'ab' * 32}", *two)
    assert run.code == 0, run.stderr[-3000:]
    for name in ("n1", "n2"):
        log = fleet.machine(name).log
        fetched = next(n for n, line in enumerate(log) if "weights wait" in line)
        left = next(n for n, line in enumerate(log) if "quarantine put" in line)
        assert fetched < left
    assert states(site) == dict.fromkeys(("n1", "n2"), "done")


@pytest.mark.process
def test_dry_run_tells_the_rollout_and_touches_nothing(fleet: Fleet, site: Transactions) -> None:
    dry = fleet.run("b200.py", "--dry", *GOOD, yes=False)
    assert changed(fleet) == []
    assert not site.store.path.exists()
    assert_message(*rollout_lines(dry))
    # What it took is known once one node has been through it.
    fleet.run("b200.py", *GOOD, "--limit", "n1")
    again = fleet.run("b200.py", "--dry", *GOOD, yes=False)
    assert_message(*[re.sub(r"~[\d.]+ s", "~TIME", line) for line in rollout_lines(again)])


@pytest.fixture(scope="module")
def first(served: Fleet, tmp_path_factory: pytest.TempPathFactory) -> tuple[Fleet, Outcome]:
    """The nodes once their bandwidth was measured for the first time, and that run."""
    folder = tmp_path_factory.mktemp("measured")
    fleet = begun(served.copy(folder / "site", *NAMES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("B200_EVIDENCE", str(folder / "evidence"))
        return fleet, fleet.run("b200.py", *MEASURED)


@pytest.fixture
def measured(first: tuple[Fleet, Outcome], site: Transactions, tmp_path: Path) -> Fleet:
    """The same nodes with their transactions, for one test."""
    for name in ("b200.db", "b200.db.newest"):
        shutil.copy(first[0].folder / name, site.store.path.with_name(name))
    return begun(first[0].copy(tmp_path / "measured", *NAMES))


@pytest.mark.process
def test_bandwidth_is_measured_wave_by_wave(first: tuple[Fleet, Outcome]) -> None:
    run = first[1]
    assert run.code == 0, run.stderr[-3000:]
    assert order(run) == [f"{n} {what}" for n in NAMES for what in ("quarantine", "LIVE")]


@pytest.mark.process
def test_bandwidth_that_runs_out_is_measured_where_it_does(
    measured: Fleet, site: Transactions
) -> None:
    fleet = measured
    _outlive(fleet, "n2")
    dry = fleet.run("b200.py", "--dry", *MEASURED, yes=False)
    assert changed(fleet) == []
    lines = sorted(line for line in dry.stderr.splitlines() if "bandwidth" in line)
    assert_message(*[re.sub(r"~[\d.]+ s", "~TIME", line) for line in lines])

    begun(fleet)
    run = fleet.run("b200.py", *MEASURED)
    assert run.code == 0, run.stderr[-3000:]
    assert [line for line in order(run) if line[:2] == "n2"] == ["n2 quarantine", "n2 LIVE"]
    times = {name: len(fleet.machine(name).ran("node.pyz bandwidth")) for name in NAMES}
    assert times == {"n1": 0, "n2": 1, "n3": 0}
    begun(fleet)
    again = fleet.run("b200.py", *MEASURED)
    assert (again.code, changed(fleet)) == (0, [])
    assert [len(fleet.machine(name).log) for name in NAMES] == [2] * len(NAMES)


@pytest.mark.process
def test_smoke_test_that_runs_out_is_made_again_where_nobody_is_served(
    fleet: Fleet, site: Transactions
) -> None:
    machine = fleet.machine("n2")
    proofs.age(machine, smoke.RECORD, 0.9 * Proof().latency_ttl_h)
    machine.save()
    run = fleet.run("b200.py")
    assert run.code == 0, run.stderr[-3000:]
    assert [line for line in order(run) if line[:2] == "n2"] == ["n2 quarantine", "n2 LIVE"]
    begun(fleet)
    again = fleet.run("b200.py")
    assert (again.code, changed(fleet)) == (0, [])
    assert [len(fleet.machine(name).log) for name in NAMES] == [2] * len(NAMES)


@pytest.mark.process
def test_measurement_that_was_killed_is_made_by_the_next_run(
    measured: Fleet, site: Transactions
) -> None:
    fleet = measured
    _outlive(fleet, "n2")
    _killed(fleet, "n2", "node.pyz bandwidth", *MEASURED)
    assert not fleet.machine("n2").is_active("haproxy.service")
    run = fleet.run("b200.py", *MEASURED)
    assert run.code == 0, run.stderr[-3000:]
    assert states(site)["n2"] == "done"
    assert fleet.machine("n2").is_active("haproxy.service")


@pytest.mark.process
def test_node_that_is_measured_slow_is_left_out_and_the_others_are_measured(
    measured: Fleet, site: Transactions
) -> None:
    fleet = measured
    _outlive(fleet, "n1", "n2")
    machine = fleet.machine("n1")
    machine.slow = True
    machine.save()
    run = fleet.run("b200.py", *MEASURED)
    assert run.outcomes == {"n1": "quarantined", "n2": "live", "n3": "live"}
    assert not fleet.machine("n1").is_active("haproxy.service")
    assert_message(run.described("n1"), TIME=TIME)


# Where the controller dies with the second node: on which machine, at which command; where the node
# stands then. The share is given at the gateway of another one, too.
STEPS = [
    ("n2", "node.pyz measure", RepairState.DRAINED),
    *(
        pytest.param(*step, marks=pytest.mark.process)
        for step in (
            ("n2", "quarantine put", RepairState.SERVING),
            ("n1", "rotation share n2 5", RepairState.PROVEN),
            ("n2", "quarantine release", RepairState.CANARY),
        )
    ),
]


@pytest.mark.parametrize(("machine", "pattern", "state"), STEPS)
def test_killed_controller_is_followed_by_one_that_finishes(
    machine: str, pattern: str, state: RepairState, fleet: Fleet, site: Transactions
) -> None:
    _killed(fleet, machine, pattern, *GOOD)
    assert site.read("n2").state is state
    run = fleet.run("b200.py", *GOOD)
    assert run.code == 0, run.stderr[-3000:]
    assert states(site) == dict.fromkeys(NAMES, "done")
    # The canary of the run that was killed was good: the node that was out comes first.
    assert order(run)[-3:] == ["n2 LIVE", "n3 quarantine", "n3 LIVE"]
    assert _audited(site) == 0


@pytest.mark.process
def test_rollback_that_was_killed_is_finished_and_the_rollout_stays_stopped(
    fleet: Fleet, site: Transactions
) -> None:
    _killed(fleet, "n1", r'packages install .*"nvidia-open", "version": "580\.105\.08"', *BAD)
    assert site.read("n1").work is Work.ROLL_BACK
    run = fleet.run("b200.py", *BAD)
    assert run.outcomes == {"n1": "rolled back", "n2": "held", "n3": "held"}
    assert fleet.machine("n1").is_active("haproxy.service")
    assert _audited(site) == 0


@pytest.mark.process
def test_rollout_that_is_given_up_returns_what_it_took_out(
    fleet: Fleet, site: Transactions
) -> None:
    _killed(fleet, "n1", "node.pyz measure", *GOOD)
    run = fleet.run("b200.py", *GOOD, "--data", "rollout_action=abort")
    assert run.outcomes == {"n1": "rolled back", "n2": "held", "n3": "held"}
    assert states(site) == {"n1": "rolled back"}
    plain = fleet.run("b200.py")
    assert plain.code == 0, plain.stderr[-3000:]


@pytest.mark.process
def test_two_controllers_at_once_never_fall_below_the_floor(
    fleet: Fleet, site: Transactions
) -> None:
    for name in ("n1", "n3"):
        machine = fleet.machine(name)
        machine.meets_at = "cat .*reprovision.json"
        machine.save()
    runs = [fleet.begin("b200.py", *GOOD, "--limit", name) for name in ("n1", "n3")]
    found = [outcome_of(run) for run in runs]
    held = [name for run in found for name, outcome in run.outcomes.items() if outcome == "held"]
    assert held, found[0].stderr[-2000:]
    run = fleet.run("b200.py", *GOOD)
    assert run.code == 0, run.stderr[-3000:]
    assert states(site) == dict.fromkeys(NAMES, "done")


@pytest.mark.process
def test_list_shows_a_rollout(
    fleet: Fleet, site: Transactions, capsys: pytest.CaptureFixture[str]
) -> None:
    _killed(fleet, "n2", "node.pyz measure", *GOOD)
    assert cli.main(["transaction", "list"]) == 0
    assert_message(capsys.readouterr().out, TIME=TIME, WHO=re.compile(r"\S+@\S+ pid \d+"))


def _outlive(fleet: Fleet, *names: str) -> None:
    """Nine tenths of the time that measured bandwidth holds have gone by on these nodes."""
    for name in names:
        machine = fleet.machine(name)
        proofs.age(machine, tests.PATH, 0.9 * Proof().bandwidth_ttl_h)
        machine.save()


def _audited(site: Transactions) -> int:
    """The exit code of a look at the transactions alone: others' reports lie in this checkout."""
    return cli.main(["audit", "verify", "--reports", str(site.store.path.with_name("none"))])


def _killed(fleet: Fleet, name: str, pattern: str, *data: str) -> None:
    """A run whose controller is killed while a command on a machine does not end."""
    _hangs(fleet, name, pattern)
    process = fleet.begin("b200.py", *data)
    end = time.monotonic() + 300
    while not (fleet.folder / name / "hanging").exists():
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    _hangs(fleet, name, "")


def _hangs(fleet: Fleet, name: str, pattern: str) -> None:
    machine = fleet.machine(name)
    machine.hangs_at = pattern
    machine.save()


def test_removal_drains_and_keeps_the_floor(fleet: Fleet, site: Transactions) -> None:
    told = fleet.run("remove.py", "--dry", "--limit", "n1", yes=False)
    assert (told.code, changed(fleet)) == (0, []), told.stderr
    assert "would drain it and stop what serves; interrupts" in told.stderr
    done = fleet.run("remove.py", "--limit", "n1", "--limit", "n2")
    assert sorted(done.outcomes.values()) == ["failed", "removed"], done.stderr
    gone, left = sorted(done.outcomes, key=lambda name: done.outcomes[name], reverse=True)
    assert "the floor is 2" in done.hosts[left]["error"]
    assert not fleet.machine(left).ran("systemctl stop|removal (units|files)")
    log = "\n".join(fleet.machine(gone).log)
    acts = ["drain begin", "drain count", "systemctl stop", *(f"removal {p}" for p in PARTS)]
    assert sorted(acts, key=log.index) == acts
    assert fleet.run("remove.py", "--limit", gone).hosts[gone]["changes"] == 0
