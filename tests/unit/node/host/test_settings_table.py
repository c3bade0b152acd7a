"""The table of settings: strict and whole; what is asked for, set, and in force."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml

from b200kit.catalog import load
from b200kit.inventory.settings import problems
from b200kit.node.checks.judge import registered
from b200kit.node.host import settings_in_force, settings_table
from b200kit.node.host.settings_in_force import SettingState
from b200kit.node.lib import documents
from b200kit.node.state.view import StateView, View
from b200kit.run.places import PACKAGE
from b200kit.stages.support.setting_files import cmdline, people, services, sysctls, tmpfiles
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import corpus, states

TABLE = load.load().settings
JUDGED = [name for name, setting in TABLE.items() if setting.judged_by is None]
CASES = corpus.corpus().cases


def document() -> dict[str, Any]:
    """The file as it is written."""
    path = PACKAGE / "catalog" / "settings.yaml"
    written: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return written


@in_subtests("name", JUDGED)
def test_every_setting_has_a_case_in_which_it_is_off(name: str) -> None:
    off = [
        case.id
        for case in CASES
        for wanted in case.findings
        if (wanted.check, wanted.subject) == ("host.settings", f"setting {name}")
        and case.fit == "unfit"
    ]
    assert off, f"no case of tests/corpus/settings.yaml has {name} off"


@pytest.mark.parametrize("name", [n for n in TABLE if n not in JUDGED])
def test_what_another_check_judges_has_one(name: str) -> None:
    assert TABLE[name].judged_by in registered()


def test_what_is_set_elsewhere_names_its_check() -> None:
    assert {entry["check"] for entry in document()["elsewhere"].values()} <= set(registered())


@in_subtests("name", TABLE)
def test_entry_says_why_and_offers_what_it_can_set(name: str) -> None:
    setting = TABLE[name]
    assert all(text.strip() for text in (setting.what, setting.why, setting.source, setting.date))
    assert setting.default is None or setting.allows(setting.default)
    means = {"sysctl", "cmdline", "tmpfiles", "modprobe", "limit", "swap", "unit"}
    assert setting.means.keys() & means == setting.means.keys() != set()
    for by in {"cmdline", "modprobe"} & setting.means.keys():
        assert list(setting.means[by]) == setting.values


@in_subtests("change", [{"kind": "guessed"}, {"applies": "sometimes"}, {"sauce": "x"}])
def test_odd_entry_is_refused(change: dict[str, Any]) -> None:
    written = document()
    written["settings"]["swappiness"] |= change
    with pytest.raises(documents.Malformed):
        settings_table.table(written)


@in_subtests(
    ("given", "key"),
    [
        ({"swapiness": 1}, "settings.swapiness"),
        ({"zzz": 1}, "settings.zzz"),
        ({"iommu": "of"}, "settings.iommu"),
        ({"init_on_alloc": "0"}, "settings.init_on_alloc"),
        ({"swappiness": 201}, "settings.swappiness"),
        ({"swappiness": True}, "settings.swappiness"),
        ({"swap": False}, "settings.swap"),
        ({"memlock": "plenty"}, "settings.memlock"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(given: dict[str, Any], key: str) -> None:
    (problem,) = problems(given.items(), TABLE)
    assert problem.key == key
    assert_message(problem.message)


def test_none_is_neither_set_nor_judged_and_a_default_of_null_is_only_asked_for() -> None:
    chosen = settings_table.chosen(TABLE, [("swappiness", None), ("cstates", "c1")])
    assert "swappiness" not in chosen
    assert chosen["cstates"] == "c1"
    assert "nokaslr" not in chosen
    assert list(problems([("swappiness", None)], TABLE)) == []


def test_a_node_is_asked_for_what_is_judged_and_no_more() -> None:
    wanted = settings_table.expected(TABLE, [("swappiness", None), ("disable_hmm", 1)])
    asked = settings_table.requested(wanted)
    assert "vm.swappiness" not in asked["sysctls"]
    assert "vm.max_map_count" in asked["sysctls"]
    assert asked["module_parameters"] == ["nvidia_uvm.uvm_disable_hmm"]


@in_subtests("odd", [None, [], {"x": 1}, {"x": {"reading": 7}}, {"x": {"reading": []}}])
def test_odd_settings_ask_for_nothing_and_do_not_raise(odd: Any) -> None:
    assert settings_table.requested(odd) == {}


def standing(name: str, value: settings_table.Value, state: dict[str, Any]) -> SettingState:
    """How a setting stands with a value asked for."""
    expected = settings_table.expected(TABLE, [(name, value)])
    return settings_in_force.effect(name, View(expected[name]), StateView(state)).standing


@in_subtests(
    ("line", "right"),
    [
        ("ro iommu=pt", True),
        ("ro", False),
        ("ro iommu=off", False),
        ("ro iommu=off iommu=pt", False),
        ("ro iommu=pt iommu=pt", True),
        ("ro xiommu=pt", False),
        ("ro iommu=ptx", False),
    ],
)
def test_word_of_the_command_line_is_there_and_nothing_says_otherwise(
    line: str, right: bool
) -> None:
    state = states.healthy()
    state["cpus"]["vendor"], state["host"]["cmdline"] = "AuthenticAMD", line
    assert (standing("iommu", "pt", state) is SettingState.RIGHT) is right


@in_subtests(
    ("line", "right"),
    [
        ("pci=realloc=on", True),
        ("pci=realloc", True),
        ("pci=noaer,realloc", True),
        ("pci=noaer pci=realloc=on", True),
        ("pci=noaer", False),
        ("pci=realloc=off", False),
        ("pci=realloc=off pci=realloc", False),
        ("realloc", False),
    ],
)
def test_options_of_pci_add_up(line: str, right: bool) -> None:
    state = states.healthy()
    state["host"]["cmdline"] = line
    assert (standing("pci_realloc", "on", state) is SettingState.RIGHT) is right


def test_unknown_condition_is_not_taken_for_not_applicable() -> None:
    entry = deepcopy(settings_table.expected(TABLE, ())["swappiness"])
    entry["applies"] = "on mars"
    effect = settings_in_force.effect("swappiness", View(entry), StateView(states.healthy()))
    assert effect.standing is SettingState.UNREAD


def test_acs_applies_where_a_bridge_has_it_or_cannot_be_read() -> None:
    state = states.healthy()
    bridges = [bridge for gpu in state["pci"]["gpus"] for bridge in gpu["bridges"]]
    for bridge in bridges:
        bridge["acs"] = None
    assert settings_in_force.applicable("acs", StateView(state)) is False
    bridges[0]["acs"] = {"unmeasured": "Permission denied"}
    assert settings_in_force.applicable("acs", StateView(state)) is True


def test_lines_of_the_drop_ins() -> None:
    recorded = states.healthy()
    recorded["kernel"]["limits"]["nofile"] = 4096
    state = StateView(recorded)
    chosen = settings_table.chosen(TABLE, [("hugepages", 8), ("nofile", 70000)])
    assert {"vm.swappiness = 1", "kernel.numa_balancing = 0", "vm.nr_hugepages = 8"} <= set(
        sysctls(TABLE, chosen, state)
    )
    assert {"* - nofile 70000", "root - memlock unlimited"} <= set(people(TABLE, chosen, state))
    assert services(TABLE, chosen, state) == [
        "DefaultLimitMEMLOCK=infinity",
        "DefaultLimitNOFILE=1024:70000",
        "DefaultLimitNPROC=infinity",
    ]
    assert " ".join(cmdline(TABLE, chosen, state)) == (
        "iommu=pt intel_iommu=on pci=realloc=on init_on_alloc=0 numa_balancing=disable"
    )


@pytest.mark.parametrize("may", [False, {"unmeasured": "x"}, None])
def test_limits_of_people_are_written_only_where_they_can_be_had(may: object) -> None:
    state, chosen = states.healthy(), settings_table.chosen(TABLE, ())
    state["kernel"]["raises_limits"] = may
    assert people(TABLE, chosen, StateView(state)) == []
    assert bool(services(TABLE, chosen, StateView(state))) is (may is not False)


def test_what_a_kernel_lacks_or_a_node_has_not_is_in_no_drop_in() -> None:
    state = states.healthy()
    state["kernel"] |= {"numa_balancing": None, "governors": {}}
    state["kernel"]["sysctls"]["vm.zone_reclaim_mode"] = None
    state["cpus"]["vendor"] = {"unmeasured": "x"}
    view, chosen = StateView(state), settings_table.chosen(TABLE, ())
    lines = " ".join(sysctls(TABLE, chosen, view))
    assert "numa_balancing" not in lines
    assert "zone_reclaim" not in lines
    assert "governor" not in " ".join(tmpfiles(TABLE, chosen, view))
    assert "intel" not in " ".join(cmdline(TABLE, chosen, view))


def test_a_floor_lowers_nothing() -> None:
    state, chosen = states.healthy(), settings_table.chosen(TABLE, ())
    state["kernel"]["sysctls"] |= {"vm.max_map_count": "8249672", "vm.swappiness": "60"}
    state["kernel"]["limits"] |= {"nofile": 1073741816, "nproc": -1}
    view = StateView(state)
    lines = [*sysctls(TABLE, chosen, view), *services(TABLE, chosen, view)]
    assert {
        "vm.max_map_count = 8249672",
        "vm.swappiness = 1",
        "net.core.somaxconn = 4096",
        "DefaultLimitNOFILE=1024:1073741816",
        "DefaultLimitNPROC=infinity",
    } < {*lines}
