"""Names and addresses of lab hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import cgroups, network, own_network, state
from tests.lab.paths import (
    BRIDGE,
    ID_VARIABLE,
    LabError,
    LabPaths,
    host_index,
    host_name,
    lab_id,
    lab_paths,
)
from tests.messages import raises_message
from tests.subtests import in_subtests

KINDS = ("own", "hosts", "vm", "documents", "mirror_log", "state_file", "known_hosts")
OWN = (*KINDS, "system", "base", "ssh_config", "bmc", "host_keys")
SHARED = ("mirror", "mirror_key", "cache", "gnupg", "tools", "ssh_key", "host_key", "token")


@in_subtests("name", ["b200-0", "b200-65", "b200-01", "b200-1x", "n1", "", "../b200-1"])
def test_a_name_that_is_no_lab_hosts_is_refused(name: str) -> None:
    with raises_message(LabError):
        host_index(name)


def test_two_labs_have_what_is_made_once_in_common_and_nothing_else() -> None:
    first, second = LabPaths(Path("/labs"), 1), LabPaths(Path("/labs"), 2)
    assert {name for name in SHARED if getattr(first, name) != getattr(second, name)} == set()
    assert {name for name in OWN if getattr(first, name) == getattr(second, name)} == set()
    assert all(getattr(first, name).is_relative_to(first.own) for name in OWN)
    assert not [name for name in SHARED if getattr(first, name).is_relative_to(first.own)]


def names_on_this_machine() -> set[str]:
    """Everything a lab calls by a name that the whole machine knows."""
    return {
        own_network.namespace(lab_id()),
        network.namespace(host_name(64)),
        cgroups.group(),
        str(own_network.way_out(lab_id())),
        str(state.run_directory(lab_paths())),
    }


def test_no_two_labs_have_a_name_of_this_machine_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    for number in range(16):
        monkeypatch.setenv(ID_VARIABLE, str(number))
        assert seen.isdisjoint(names_on_this_machine())
        seen |= names_on_this_machine()


def test_names_of_interfaces_are_short_enough_for_the_kernel() -> None:
    assert all(len(name) <= 15 for name in (BRIDGE, f"v-{host_name(64)}", network.INTERFACE))


def test_a_lab_only_finds_traces_of_its_own_hosts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(network, "NAMESPACES", tmp_path)
    for name in ("lab1-b200-2", "lab11-b200-3", "lab0-b200-4", "b200-lab-1", "other"):
        (tmp_path / name).touch()
    monkeypatch.setenv(ID_VARIABLE, "1")
    assert network.leftovers() == ["b200-2"]
