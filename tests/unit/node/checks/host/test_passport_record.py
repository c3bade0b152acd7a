"""The passport: issued from a whole reading only, compared without its date."""

from __future__ import annotations

from copy import deepcopy

import pytest

from b200kit.node.checks.host import passport_record
from b200kit.node.state.view import Unread
from tests.subtests import in_subtests
from tests.unit import paths, states


def test_it_names_every_gpu_by_its_module_and_only_data_nics() -> None:
    issued = passport_record.issue(states.healthy())
    assert sorted(issued["gpus"]) == [str(n) for n in range(1, 9)]
    assert issued["gpus"]["6"]["serial"] == "1650000000001"
    assert len(issued["nics"]) == 12


def test_link_recoveries_are_those_of_all_links_of_a_gpu() -> None:
    state = states.healthy()
    state["gpus"][0]["links"][3]["recovery_events"] = 4
    state["gpus"][0]["links"][9]["recovery_events"] = 1
    assert passport_record.issue(state)["gpus"]["6"]["link_recoveries"] == 5


@in_subtests(
    ("keys", "says"),
    [
        (("gpus", 2, "serial"), "gpus.2..serial"),
        (("gpus", 2, "vbios"), "gpus.2..vbios"),
        (("gpus",), "gpus"),
        (("pci", "nics"), "pci.nics"),
        (("pci", "nics", 7, "address"), "pci.nics.7..address"),
    ],
)
def test_no_passport_without_a_whole_reading(keys: tuple[str | int, ...], says: str) -> None:
    state = states.healthy()
    paths.put(state, keys, {"unmeasured": "for the test"})
    with pytest.raises(Unread, match=says):
        passport_record.issue(state)


def test_nic_without_readable_product_data_is_of_the_data_nics() -> None:
    """On a fit node it belongs to no NVSwitch (nics.switch-management)."""
    state = states.healthy()
    state["pci"]["nics"][7]["switch_management"] = {"unmeasured": "Input/output error"}
    assert passport_record.issue(state)["nics"] == passport_record.issue(states.healthy())["nics"]


def test_where_modules_have_no_number_the_index_names_the_gpu() -> None:
    state = states.healthy()
    state["gpus"][0]["module_id"] = {"unmeasured": "Not Supported (3)"}
    assert "index 0" in passport_record.issue(state)["gpus"]


def test_the_day_it_was_issued_makes_no_difference() -> None:
    one = passport_record.issue(states.healthy())
    later = deepcopy(one) | {"accepted_at": "2027-01-01T00:00:00Z"}
    assert passport_record.same(one, later)
    later["gpus"]["6"]["serial"] = "another"
    assert not passport_record.same(one, later)
    assert not passport_record.same(one, None)
