"""Names and addresses of lab hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.network import host_mac
from tests.lab.paths import LabError, host_address, host_index, host_name, lab_paths
from tests.subtests import in_subtests


def test_first_and_last_host_have_their_names_and_addresses() -> None:
    assert (host_name(1), host_address("b200-1")) == ("b200-1", "10.77.0.11")
    assert (host_name(64), host_address("b200-64")) == ("b200-64", "10.77.0.74")


@pytest.mark.parametrize("index", [0, -1, 65])
def test_a_host_number_out_of_range_is_refused(index: int) -> None:
    with pytest.raises(LabError, match=r"not in 1\.\.64"):
        host_name(index)


@in_subtests("name", ["b200-0", "b200-65", "b200-01", "b200-1x", "n1", "", "../b200-1"])
def test_a_name_that_is_no_lab_hosts_is_refused(name: str) -> None:
    with pytest.raises(LabError, match="not a lab host"):
        host_index(name)


def test_every_host_has_a_hardware_address_of_its_own() -> None:
    macs = {host_mac(host_name(index)) for index in range(1, 65)}
    assert len(macs) == 64
    assert host_mac("b200-11") == "02:b2:00:00:00:0b"


def test_the_lab_directory_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("B200_LAB", str(tmp_path))
    assert lab_paths().state_file == tmp_path / "lab.json"
    monkeypatch.delenv("B200_LAB")
    monkeypatch.setenv("HOME", "/home/someone")
    assert lab_paths().root == Path("/home/someone/.cache/b200kit/lab")
