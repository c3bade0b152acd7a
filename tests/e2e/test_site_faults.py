"""Faults of the site: each stops its own node at its stage with the cause; a re-run completes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.driving import Outcome, deploy


@pytest.fixture(scope="module")
def nodes(boot: Callable[..., Any]) -> Iterator[None]:
    """Three fresh nodes; the site is put right afterwards."""
    boot(*["healthy"] * 3)
    yield
    lab.publish_vendor()


@pytest.fixture(scope="module")
def signed_by_another(nodes: None) -> Outcome:
    """The vendor's repository signed by a key nobody pinned."""
    lab.publish_vendor(key="other")
    return deploy()


@pytest.fixture(scope="module")
def package_missing(signed_by_another: Outcome) -> Outcome:
    """The repository is signed right again, but lacks the container toolkit."""
    lab.publish_vendor(leave_out=["nvidia-container-toolkit"])
    return deploy()


@pytest.fixture(scope="module")
def two_cut_off(package_missing: Outcome) -> Outcome:
    """The repository is whole; one node has no route to the mirror, one no room for the engine."""
    lab.publish_vendor()
    lab.block_mirror("b200-2")
    lab.small_disk("b200-3", "/opt/vllm", 4)
    return deploy()


NAMES = ("b200-1", "b200-2", "b200-3")


def test_repository_of_another_key_is_refused(signed_by_another: Outcome) -> None:
    assert signed_by_another.code == 1
    for name in NAMES:
        told = signed_by_another.told(name)
        assert signed_by_another.host(name)["stage"] == "host", told
        assert "NO_PUBKEY" in told or "not signed" in told, told


def test_package_that_is_not_there_is_named(package_missing: Outcome) -> None:
    assert package_missing.code == 1
    for name in NAMES:
        told = package_missing.told(name)
        assert package_missing.host(name)["stage"] == "containers", told
        assert "nvidia-container-toolkit" in told, told


def test_rest_of_the_fleet_goes_on(two_cut_off: Outcome) -> None:
    assert two_cut_off.code == 1
    assert two_cut_off.outcome("b200-1") == "live", two_cut_off.told("b200-1")


def test_node_without_a_route_says_so(two_cut_off: Outcome) -> None:
    told = two_cut_off.told("b200-2")
    assert two_cut_off.host("b200-2")["stage"] == "containers", told
    assert "connect" in told or "unreachable" in told, told


def test_node_without_room_says_so(two_cut_off: Outcome) -> None:
    told = two_cut_off.told("b200-3")
    assert two_cut_off.host("b200-3")["stage"] == "serving", told
    assert "no disk space: " in told, told


def test_rerun_after_the_causes_are_gone_completes(two_cut_off: Outcome) -> None:
    lab.unblock_mirror("b200-2")
    lab.large_disk("b200-3", "/opt/vllm")
    again = deploy()
    assert again.code == 0, again.said[-3000:]
    assert [again.outcome(name) for name in NAMES] == ["live"] * 3
