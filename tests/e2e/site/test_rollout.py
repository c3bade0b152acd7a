"""Nodes that serve are changed in waves while clients stream through the fleet's endpoints.

Nobody loses a stream, the floor is kept as the clients see it, and a change that is bad stops at
the first node, which serves again what it served before. Two nodes are two waves; with as many
as B200_ROLLOUT_NODES says, and what the clients saw:

    B200_ROLLOUT_NODES=6 .venv/bin/pytest -s tests/e2e/site/test_rollout.py

All but the first run at night: how changes stop is decided over machines in memory, too.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from b200kit import cli
from b200kit.reprovision.actions import evidence
from b200kit.reprovision.ledger import Transactions
from b200kit.reprovision.states import RepairState
from b200kit.store import database
from b200kit.store.database import Store
from tests.e2e.conftest import SHORT, Live
from tests.e2e.driving import Outcome, deploy, on, plan
from tests.e2e.tools import model_store
from tests.e2e.tools.fleet_load import LIMITS, STREAMS, under_load, until, words
from tests.lab import inventory
from tests.lab.paths import lab_paths
from tests.lab.state import read_state

COUNT = int(os.environ.get("B200_ROLLOUT_NODES", "2"))
NODES = [f"b200-{number}" for number in range(1, COUNT + 1)]
CANARY, OTHERS = NODES[0], NODES[1:]
FIRST, LATER = "580.126.20", "580.159.03"


@pytest.fixture(scope="module")
def transactions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transactions]:
    """The transactions of the module."""
    folder = tmp_path_factory.mktemp("rollout")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(database.VARIABLE, str(folder / "b200.db"))
        patch.setenv(evidence.VARIABLE, str(folder / "evidence"))
        yield Transactions(Store(folder / "b200.db"))


@pytest.fixture(scope="module")
def served(live: Live, transactions: Transactions) -> Outcome:
    """Nodes that serve, each with the fleet's endpoint; driver FIRST."""
    live(len(NODES))
    outcome = deploy("b200.py", *words())
    assert outcome.code == 0, outcome.said[-4000:]
    return outcome


def driver(name: str) -> str:
    """The driver's version as the node's package has it."""
    return on(name, "dpkg-query -W -f '${Version}' nvidia-open").partition("-")[0]


def boots(name: str) -> str:
    """Which boot a node is in."""
    return on(name, "cat /proc/sys/kernel/random/boot_id")


def waves(transactions: Transactions) -> dict[str, int]:
    """The wave in which each node was changed last."""
    changes = {name: transactions.read(name).change for name in NODES}
    return {name: change.wave for name, change in changes.items() if change}


def engine(**changes: Any) -> dict[str, Any]:
    """The lab's engine, otherwise."""
    state = read_state(lab_paths())
    given: dict[str, Any] = inventory.node(state, state["hosts"][0])["engine"]
    return {**given, **changes}


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Another lock, which is another engine beside the first, and another revision of the model."""
    lock = tmp_path_factory.mktemp("newer") / "requirements.txt"
    lock.write_text(f"{Path(engine()['requirements']).read_text()}# built again\n")
    store = model_store.build(b"next")
    server = model_store.serve(store)
    yield {
        "driver": LATER,
        "engine": engine(requirements=str(lock)),
        "model_store": store.url,
        "model_revision": store.revision,
    }
    server.shutdown()
    server.server_close()


def test_driver_engine_and_model_go_through_the_fleet_in_waves_and_no_stream_is_lost(
    served: Outcome, newer: dict[str, Any], transactions: Transactions, tmp_path: Path
) -> None:
    dry = plan("b200.py", *words(**newer))
    assert "rollout  wave 1  b200-1  (canary" in dry.stderr
    with under_load(tmp_path, "driver, engine and model") as found:
        run = deploy("b200.py", *words(**newer))
    assert run.code == 0, run.said[-6000:]
    assert found[0].lost == []
    assert found[0].least >= max(1, len(NODES) - LIMITS["max_out"])
    assert {driver(name) for name in NODES} == {LATER}
    held = on(OTHERS[-1], "cat /etc/vllm/replica-0.yaml /etc/systemd/system/vllm@0*/*")
    assert newer["model_revision"] in held
    expected = [1, *(2 + place // LIMITS["max_out"] for place in range(len(OTHERS)))]
    assert waves(transactions) == dict(zip(NODES, expected, strict=True))
    again = deploy("b200.py", *words(**newer))
    assert [again.host(name)["changes"] for name in NODES] == [0] * len(NODES)
    assert [again.host(name)["commands"] for name in NODES] == [2] * len(NODES)


@contextmanager
def breaks_with(version: str) -> Iterator[None]:
    """A driver under which a GPU of the canary has no NVLink, and with no other."""
    over = threading.Event()

    def follow() -> None:
        was = ""
        while not over.wait(0.2):
            # It is off in the middle of its reboot.
            with suppress(lab.LabError, OSError):
                now = driver(CANARY)
                if now and now != was:
                    lab.set_scenario(CANARY, "gpu2-no-nvlink" if now == version else "healthy")
                    was = now

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        lab.set_scenario(CANARY, "healthy")


@pytest.fixture(scope="module")
def later(served: Outcome, newer: dict[str, Any]) -> dict[str, Any]:
    """What the nodes have: driver LATER and all that is newer, by the first test or by this."""
    outcome = deploy("b200.py", *words(**newer))
    assert outcome.code == 0, outcome.said[-4000:]
    return newer


@pytest.mark.long
def test_bad_driver_stops_at_the_canary_which_is_rolled_back(
    later: dict[str, Any], transactions: Transactions, tmp_path: Path
) -> None:
    before = {name: boots(name) for name in OTHERS}
    with under_load(tmp_path, "bad driver") as found, breaks_with(FIRST):
        run = deploy("b200.py", *words(**later | {"driver": FIRST}))
    assert run.code == 1
    assert run.outcome(CANARY) == "rolled back", run.said[-6000:]
    assert {run.outcome(name) for name in OTHERS} == {"held"}
    assert found[0].lost == []
    assert driver(CANARY) == LATER
    assert {name: boots(name) for name in OTHERS} == before
    change = transactions.read(CANARY).change
    assert change
    assert "GPU 2 has no NVLink" in change.failed
    assert deploy("check.py", *words(**later)).code == 0


def held_others(run: Outcome, before: dict[str, str]) -> None:
    """The change stopped at the canary: nobody else was touched."""
    assert run.code == 1
    assert {run.outcome(name) for name in OTHERS} == {"held"}, run.said[-6000:]
    assert {name: boots(name) for name in OTHERS} == before


@pytest.fixture(scope="module")
def recorded(later: dict[str, Any]) -> list[str]:
    """The canary's own record, accepted; what its runs were measured with."""
    data = words(**later, smoke={**SHORT, "requests": 20, "rate": 20.0})
    # What is measured is as the node has it, and a baseline is of one load.
    assert deploy("b200.py", *data).code == 0
    for _ in range(5):
        run = deploy("smoke.py", "--limit", CANARY, *data)
        assert run.code == 0, run.said[-4000:]
    accepted = ["accept", CANARY, "--last", "5", "--by", "test", "--why", "sound"]
    assert cli.main(["record", *accepted]) == 0
    return data


@pytest.mark.long
def test_engine_slower_than_its_record_stops_at_the_canary_which_is_rolled_back(
    recorded: list[str], newer: dict[str, Any], transactions: Transactions, tmp_path: Path
) -> None:
    before = {name: boots(name) for name in OTHERS}
    slow = {**newer["engine"], "environment": {"STANDIN_ITL_MS": "60"}}
    with under_load(tmp_path, "slow engine") as found:
        run = deploy("b200.py", *recorded, "--data", f"engine={json.dumps(slow)}")
    held_others(run, before)
    assert run.outcome(CANARY) == "rolled back", run.said[-6000:]
    assert found[0].lost == []
    change = transactions.read(CANARY).change
    assert change
    # A busy machine stretches some single gap of any run: the mean of each request says it surely.
    assert "slower than its record: " in change.failed
    assert "TPOT 60 ms, the baseline" in change.failed
    assert "STANDIN_ITL_MS" not in on(CANARY, "cat /etc/systemd/system/vllm@0*/* /etc/vllm/*")
    assert deploy("check.py", *recorded).code == 0


@pytest.mark.long
def test_node_that_dies_while_it_is_watched_ends_the_rollout(
    recorded: list[str], transactions: Transactions, tmp_path: Path
) -> None:
    before = {name: boots(name) for name in OTHERS}
    watched = {"driver": FIRST, "rollout": {**LIMITS, "watch_s": 600}}
    # The rollout to this driver may be the one that stopped when it was bad; it is good by now.
    data = [*recorded, *words(**watched, rollout_action="resume")]
    killed = threading.Event()

    def kill() -> None:
        until(lambda: transactions.read(CANARY).state is RepairState.CANARY)
        lab.kill(CANARY)
        killed.set()

    killer = threading.Thread(target=kill)
    killer.start()
    with under_load(tmp_path, "node that dies") as found:
        run = deploy("b200.py", *data)
    killer.join()
    assert killed.is_set()
    held_others(run, before)
    # Streams that were on it when it died are the only ones that may end with it.
    assert len(found[0].lost) <= STREAMS
    lab.power_on(CANARY)
    back = deploy("reprovision.py", *recorded, "--data", "reprovision_action=return")
    assert back.outcome(CANARY) == "live", back.said[-6000:]
    assert driver(CANARY) == LATER
    assert deploy("check.py", *recorded).code == 0
