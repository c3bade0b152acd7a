"""A tuning of one node, its machine in memory: what is tried in which order, and what is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.keys.tuning import Tune
from b200kit.inventory.parse import parse as parse_spec
from b200kit.inventory.spec import NodeSpec
from b200kit.records import store
from b200kit.records.tuning import TuningResult
from b200kit.run.node import Node, StageFailed
from b200kit.store import database
from b200kit.tuning.run import TuningRun
from tests.fake.machine import Machine, measured
from tests.messages import assert_message, raises_message
from tests.unit import nodes
from tests.unit.specs import CATALOGUE, data

TUNE = Tune(layouts=("configured",), requests=60, seconds=1.0, resolution=0.5)


def answer(good: int, **changes: Any) -> str:
    """A smoke test with so many good requests of 60."""
    found = measured()
    found["main"] |= {"num_prompts": 60, "goodput_share": good / 60, "request_goodput": 3.9}
    return json.dumps({**found, **changes})


GOOD_BELOW_8 = {
    r"measure .*--rate (8|16) ": (False, answer(12)),
    r"measure .*--rate ": (True, answer(60)),
}


@pytest.fixture
def live(tmp_path: Path) -> tuple[Node, Machine]:
    """A node in its desired state; it meets the objective below 8 requests a second."""
    node, machine = nodes.settled(tmp_path)
    machine.answers = dict(GOOD_BELOW_8)
    return node, machine


def parser(node: Node) -> Callable[[Mapping[str, object]], Any]:
    """The node's inventory with some keys on top."""
    repositories = [{**data()["repositories"][0], "key": node.spec.repositories[0].key}]
    engine = data()["engine"] | {"requirements": node.spec.engine.requirements}
    site = data(driver=nodes.DRIVER, nvlsm=node.spec.nvlsm, repositories=repositories)

    def parse(changes: Mapping[str, object]) -> Any:
        found = parse_spec({**site, "engine": engine, **changes}, CATALOGUE)
        return found.replace(tune=node.spec.tune) if isinstance(found, NodeSpec) else found

    return parse


def tune(node: Node, **changes: Any) -> TuningResult:
    """Run the stages of a tuning up to where the node is put back; what it found."""
    node.spec = node.spec.replace(tune=TUNE.replace(**changes))
    nodes.look(node)
    tuning = TuningRun(node, parser(node))
    for change in tuning.cells.plan(node):
        change.apply(node)
    nodes.look(node)
    for change in tuning.clear.plan(node):
        change.apply(node)
    nodes.look(node)
    assert tuning.plan is not None
    return tuning.plan.result()


def rates(machine: Machine) -> list[str]:
    """The rates that our client sent, in order."""
    return re.findall(r"measure .*--rate (\S+)", "\n".join(machine.log))


def test_each_layout_is_swept(live: tuple[Node, Machine]) -> None:
    node, machine = live
    found = tune(node, layouts=("configured", "A", "C"))
    cells = [(cell.layout.name, cell.rate) for cell in found.cells]
    assert cells == [(name, rate) for name in ("configured", "A", "C") for rate in (4, 8, 5.66)]
    assert len(rates(machine)) == 9
    assert [(one.knee.rate, one.knee.high) for one in found.knees] == [(5.66, 8)] * 3


def test_replicas_of_other_gpus_start_after_all_others_were_stopped(
    live: tuple[Node, Machine],
) -> None:
    node, machine = live
    tune(node, layouts=("configured", "A"))
    log = machine.log
    stopped = [n for n, line in enumerate(log) if re.search(r"systemctl stop .*vllm@1", line)]
    started = [n for n, line in enumerate(log) if re.search(r"systemctl start .*vllm@3", line)]
    cells = [n for n, line in enumerate(log) if re.search(r"measure .*--rate", line)]
    assert len(stopped) == 2
    assert cells[2] < stopped[0] < started[0] < cells[3] < cells[5] < stopped[1]


def test_batch_limits_alone_are_changed_behind_the_gateway(live: tuple[Node, Machine]) -> None:
    """D is the configured layout with other limits: the same GPUs, so one after the other."""
    node, machine = live
    tune(node, layouts=("configured", "D"))
    assert not machine.ran(r"systemctl stop .*vllm@1")
    assert [line for line in machine.ran(r"rolling-restart ") if "--replicas=1" in line]


def test_random_words_are_sent_unless_those_of_the_smoke_test_are_asked_for(
    live: tuple[Node, Machine],
) -> None:
    node, machine = live
    node.spec = node.spec.replace(smoke=node.spec.smoke.replace(prompts="texts"))
    tune(node)
    assert len(machine.ran(r"measure .*--rate .* --random-words$")) == 3 == len(rates(machine))
    machine.log.clear()
    # Cells of other prompts are none of this sweep.
    tune(node, prompts="smoke")
    assert rates(machine) == ["4", "8", "5.66"]
    assert not machine.ran(r"--random-words")


def test_second_run_measures_nothing_and_says_the_same(live: tuple[Node, Machine]) -> None:
    node, machine = live
    first = tune(node)
    machine.log.clear()
    assert tune(node) == first
    assert rates(machine) == []


def test_run_that_lost_its_node_goes_on_at_the_cell_it_was_at(
    live: tuple[Node, Machine],
) -> None:
    node, machine = live
    machine.dies_at = r"measure .*--rate 5\.66"
    broken = tune(node)
    assert [cell.status for cell in broken.cells] == ["done", "done", "failed"]
    assert "connection lost" in broken.cells[2].why
    machine.dies_at = ""
    machine.log.clear()
    found = tune(node)
    assert rates(machine) == ["5.66"]
    assert [cell.status for cell in found.cells] == ["done"] * 3


@pytest.mark.parametrize("killed_after", [0, 1, 2])
def test_run_killed_after_any_cell_measures_what_is_left(
    live: tuple[Node, Machine], killed_after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, machine = live
    whole = tune(node)
    lines = store.tuning_of("n01")
    monkeypatch.setenv(database.VARIABLE, str(tmp_path / "killed.db"))
    for line in lines[: killed_after + 1]:
        store.add_to_tuning("n01", line)
    machine.log.clear()
    again = tune(node)
    assert rates(machine) == ["4", "8", "5.66"][killed_after:]
    assert [c.rate for c in again.cells] == [c.rate for c in whole.cells]


@pytest.mark.parametrize("change", [{"requests": 61}, {"seconds": 30.0}, {"workloads": ("smoke",)}])
def test_cells_of_another_load_do_not_count(
    live: tuple[Node, Machine], change: dict[str, Any]
) -> None:
    node, machine = live
    tune(node)
    machine.log.clear()
    tune(node, **change)
    assert len(rates(machine)) == 3


def test_cells_of_another_system_do_not_count(live: tuple[Node, Machine]) -> None:
    node, machine = live
    tune(node)
    machine.log.clear()
    machine.hardware["host"]["kernel"] = "6.8.0-99-generic"
    tune(node)
    assert len(rates(machine)) == 3


def test_client_that_starves_is_asked_twice_and_nothing_is_chosen(
    live: tuple[Node, Machine],
) -> None:
    node, machine = live
    starved = answer(60, verdict="invalid", reasons=["client starved"])
    machine.answers = {r"measure ": (False, starved)}
    found = tune(node)
    assert [(cell.rate, cell.status) for cell in found.cells] == [
        (4, "failed"), (4, "failed"), (2, "failed"), (2, "failed"),
    ]  # fmt: skip
    assert found.knees[0].knee.rate is None
    assert found.chosen.layout is None


def test_layout_that_does_not_get_warm_is_a_result_and_the_next_is_tried(
    live: tuple[Node, Machine],
) -> None:
    node, machine = live
    machine.answers = {r"systemctl start .*vllm@3": (False, ""), **machine.answers}
    found = tune(node, layouts=("A", "C"))
    status = {name: [c.status for c in found.cells if c.layout.name == name]
              for name in ("A", "C")}  # fmt: skip
    assert status == {"A": ["failed"], "C": ["done"] * 3}


def test_full_disk_ends_the_layout_and_the_node_is_put_back_even_so(
    live: tuple[Node, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    node, machine = live

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "add_to_tuning", full)
    asked = node.spec.replicas
    found = tune(node, layouts=("A",))
    assert [cell.status for cell in found.cells] == ["skipped"]
    assert node.spec.replicas == asked
    assert rates(machine) == []
    # Stopped once for the layout's GPUs, once for those of the configured layout.
    assert len(machine.ran(r"systemctl stop .*vllm@1")) == 2


def test_layout_that_cannot_be_is_named_with_the_inventorys_own_words(
    live: tuple[Node, Machine],
) -> None:
    node, _ = live
    node.spec = node.spec.replace(replica_cpus=("0-3", "56-59"), tune=TUNE)
    site = parser(node)

    def parse(changes: Mapping[str, object]) -> Any:
        return site({**changes, "replica_cpus": ["0-3", "56-59"]})

    node.spec = node.spec.replace(tune=TUNE.replace(layouts=("configured", "A")))
    tuning = TuningRun(node, parse)
    assert len(tuning.cells.plan(node)) == 2
    assert tuning.plan is not None
    assert_message(*[str(one) for one in tuning.plan.refused])


def test_node_that_has_traffic_is_left_alone(live: tuple[Node, Machine]) -> None:
    node, machine = live
    machine.answers["rotation list"] = (True, "vllm0  UP  0 requests\nvllm1  UP  12 requests")
    with raises_message(StageFailed):
        tune(node, layouts=("configured", "A"))
    assert not machine.ran(r"measure |systemctl stop|put")


def test_node_where_nothing_serves_yet_is_refused(tmp_path: Path) -> None:
    node, _ = nodes.bare(tmp_path)
    with raises_message(StageFailed):
        TuningRun(node, parser(node)).cells.plan(node)
