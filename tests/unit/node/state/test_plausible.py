"""What a reading can be: everything outside is unmeasured, and nothing else is changed."""

from __future__ import annotations

import io
import sys
import zipfile
from copy import deepcopy
from typing import Any

from b200kit.node.checks.judge import judge
from b200kit.node.state.plausible import plausible
from b200kit.run import zipapp
from tests.subtests import in_subtests
from tests.unit import paths, spoiled, states

ODD: dict[str, list[Any]] = {
    "gpus[1].ecc_volatile_uncorrected": [-1, 2**32 - 1, 2**64 - 1, True, 0.0, "0", None],
    "gpus[1].pcie.width": [63, -16, 3, 16.0],
    "gpus[1].power_limit_mw": [10**9, float("nan"), float("inf")],
    "gpus[1].fabric.health_mask": [2**32 - 1, -1],
    "gpus[1].fabric.cluster_uuid": ["", "00000000-0000-0000-0000-00000000000", "x" * 36],
    "gpus[1].ecc": [1, 0, "true", None],
    "gpus[1].vbios": ["97.00\n", "97\x1b[2J", "a" * 200, "", 97],
    "gpus[1].links[3].link": [-1, 4, 2**31],
    "gpus[1].uuid": ["GPU-00000000-0000-0000-0000-000000000000", "GPU-1"],
    "gpus[1].serial": ["1650000000001", "\x00"],
    "gpus[1].module_id": [7, -1],
    "gpus[1].index": [0, -1],
    "numa[1].memory_kib": [-1, 2**63],
    "numa[1].id": [0, -2],
    "pci.gpus[1].address": ["0000:8f:00.0", "8f:00.0\n"],
    "modules.nvidia": [False, 0, 580],
    "units[nvidia-fabricmanager.service].main_pid": [-1, 2**31],
    "host.hostname": ["n1\u202egnp", "n1\r", "n" * 300],
}


@in_subtests("place, value", [(place, value) for place, odd in ODD.items() for value in odd])
def test_value_that_cannot_be_is_unmeasured(place: str, value: Any) -> None:
    state, path = states.healthy(), paths.parse(place)
    paths.put(state, path, value)
    assert "implausible" in paths.at(plausible(state), path)["unmeasured"]


@in_subtests("name", states.NAMES)
def test_recorded_state_is_plausible_as_it_is(name: str) -> None:
    state = states.recorded(name)
    assert plausible(state) is state


def test_only_what_cannot_be_is_changed_and_never_in_place() -> None:
    state = states.healthy()
    state["gpus"][2]["pcie"]["width"] = 63
    before = deepcopy(state)
    found = plausible(state)
    assert state == before
    found["gpus"][2]["pcie"]["width"] = 63
    assert found == before


@in_subtests("place", ["gpus", "pci.gpus"])
def test_more_gpus_than_a_node_can_have_are_unmeasured_as_a_whole(place: str) -> None:
    """Checks ask about each pair of GPUs, so thousands of them would hold up the controller."""
    for count, is_too_many in ((64, False), (65, True)):
        state = states.healthy()
        paths.put(state, paths.parse(place), [{} for _ in range(count)])
        found = paths.at(plausible(state), paths.parse(place))
        assert ("unmeasured" in found) == is_too_many
        if is_too_many:
            assert "a list of at most 64" in found["unmeasured"]


def test_key_that_cannot_be_makes_its_mapping_unmeasured() -> None:
    state = states.healthy()
    state["units"]["a\x1b]0;x\x07.service"] = {}
    assert "implausible" in plausible(state)["units"]["unmeasured"]


@in_subtests("document", [None, 0, [], "x", {"gpus": 3}, {"gpus": [None]}, {"gpus": {}}])
def test_any_document_is_answered(document: Any) -> None:
    assert judge(states.expectation(), plausible(document)).fit == "unmeasured"


def test_node_program_carries_the_schema() -> None:
    """As the program reads it: from the archive, not from the source tree."""
    with zipfile.ZipFile(io.BytesIO(zipapp.build()[0])) as archive:
        assert "b200kit/node/state/node-state.json" in archive.namelist()


@in_subtests("number", range(spoiled.FIXED), one_in=10)
def test_spoiled_state_is_never_fit_in_silence(number: int) -> None:
    """A fit state with one field made implausible, duplicated or unequal."""
    case = spoiled.case(number)
    assert case.is_seen(), f"{case.kind} of {case.place} in {case.base}"


if __name__ == "__main__":
    # python -m tests.unit.node.state.test_plausible 50000: as many as are asked for.
    unseen = [c for n in range(int(sys.argv[1])) if not (c := spoiled.case(n)).is_seen()]
    kinds = sorted({f"{case.kind} {case.general}" for case in unseen})
    sys.stdout.write("\n".join([*kinds, f"{len(unseen)} of {sys.argv[1]} stay fit in silence\n"]))
