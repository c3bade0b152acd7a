"""Names and addresses of lab hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import cgroups, network, own_network, state
from tests.lab.network import host_mac
from tests.lab.paths import (
    BRIDGE,
    ID_VARIABLE,
    LabError,
    LabPaths,
    host_address,
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


def test_first_and_last_host_have_their_names_and_addresses() -> None:
    assert (host_name(1), host_address("b200-1")) == ("b200-1", "10.77.0.11")
    assert (host_name(64), host_address("b200-64")) == ("b200-64", "10.77.0.74")


@pytest.mark.parametrize("index", [0, -1, 65])
def test_a_host_number_out_of_range_is_refused(index: int) -> None:
    with pytest.raises(LabError, match=r"not in 1\.\.64"):
        host_name(index)


@in_subtests("name", ["b200-0", "b200-65", "b200-01", "b200-1x", "n1", "", "../b200-1"])
def test_a_name_that_is_no_lab_hosts_is_refused(name: str) -> None:
    with raises_message(LabError):
        host_index(name)


def test_every_host_has_a_hardware_address_of_its_own() -> None:
    macs = {host_mac(host_name(index)) for index in range(1, 65)}
    assert len(macs) == 64
    assert host_mac("b200-11") == "02:b2:00:00:00:0b"


def test_the_lab_directory_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("B200_LAB", str(tmp_path))
    assert lab_paths().state_file == tmp_path / "0" / "lab.json"
    monkeypatch.delenv("B200_LAB")
    monkeypatch.setenv("HOME", "/home/someone")
    assert lab_paths().root == Path("/home/someone/.cache/b200kit/lab")


@pytest.mark.parametrize("word", ["16", "-1", "1.0", "one", " 1"])
def test_an_id_that_no_lab_can_have_is_refused(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv(ID_VARIABLE, word)
    with raises_message(LabError):
        lab_id()


def test_without_an_id_it_is_lab_0(monkeypatch: pytest.MonkeyPatch) -> None:
    for word in ("", "0"):
        monkeypatch.setenv(ID_VARIABLE, word)
        assert lab_id() == 0
    monkeypatch.delenv(ID_VARIABLE)
    assert lab_paths().id == 0


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
