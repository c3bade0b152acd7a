"""A lab leaves the networks of the others alone."""

from __future__ import annotations

import pytest

from tests.lab import network


@pytest.mark.parametrize("is_up", [True, False])
def test_a_lab_without_a_network_of_its_own_removes_no_bridge(
    monkeypatch: pytest.MonkeyPatch, is_up: bool
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(network, "exists", lambda: is_up)
    monkeypatch.setattr(network, "bridge_up", lambda: True)
    monkeypatch.setattr(network, "run", lambda argv: ran.append(" ".join(argv)))
    network.remove_bridge()
    assert ran == (["ip link del labbr0"] if is_up else [])
