"""Two controllers at once, one store: together they keep to the floor."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.reprovision.ledger import Transactions
from b200kit.store import database
from b200kit.store.database import Store
from tests.fake.fleet import Fleet, Outcome, outcome_of
from tests.fake.test_cli_reprovision import NO_NVLINK, REPAIRS

NAMES = ("n1", "n2", "n3", "n4")
LEVELS = ("restart_services", "reset_gpus", "reboot", "power_cycle")
ROUNDS = (0, pytest.param(1, marks=pytest.mark.process))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Four nodes that serve."""
    fleet = Fleet(tmp_path_factory.mktemp("live") / "site")
    for name in NAMES:
        fleet.add(name)
    assert fleet.run("b200.py").code == 0
    site = fleet.folder / "group_data" / "nodes.py"
    limits = {"budgets": dict.fromkeys(LEVELS, 0)}
    more = f"reprovision = {limits}\nrollout = {{'floor': 3}}\n"
    site.write_text(site.read_text() + more)
    return fleet


def at_once(fleet: Fleet, *names: str) -> list[Outcome]:
    """A controller for each node; all have observed theirs before one takes any out."""
    for name in names:
        machine = fleet.machine(name)
        machine.hardware = NO_NVLINK
        machine.answers = {pattern: (True, said) for pattern, said in REPAIRS.items()}
        machine.meets_at, machine.meets = "cat .*reprovision.json", len(names)
        machine.save()
    runs = [fleet.begin("reprovision.py", "--limit", name) for name in names]
    return [outcome_of(run) for run in runs]


@pytest.mark.parametrize("number", ROUNDS)
def test_two_controllers_never_take_out_more_than_the_floor_allows(
    number: int, live: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Transactions(Store(tmp_path / "b200.db"))
    monkeypatch.setenv(database.VARIABLE, str(site.store.path))
    monkeypatch.setenv("B200_EVIDENCE", str(tmp_path / "evidence"))
    fleet = live.copy(tmp_path / "site", *NAMES)
    runs = at_once(fleet, "n1", "n2")
    found = {name: said for run in runs for name, said in run.outcomes.items()}
    assert sorted(found[name] for name in ("n1", "n2")) == ["quarantined", "unfit"], runs[0].stderr
    assert [name for name in NAMES if site.read(name).is_open] in (["n1"], ["n2"])
