"""With Secure Boot on a driver is loaded only where its key is known to be enrolled."""

from __future__ import annotations

import pytest

from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Status
from b200kit.node.state.view import StateView
from b200kit.readiness import driver


@pytest.mark.parametrize(
    ("enrolled", "status"),
    [
        (True, Status.PASS),
        (False, Status.FAIL),
        (None, Status.FAIL),
        ({"unmeasured": "mokutil is not installed"}, Status.FAIL),
    ],
)
def test_key_that_nobody_could_read_is_not_enrolled(enrolled: object, status: Status) -> None:
    readings = {"secure_boot": True, "signing_key_enrolled": enrolled}
    state = StateView({"readiness": readings, "modules": {"nvidia": None}})
    [found] = driver.secure_boot(Expectation({"ready": {"driver": "580.126.20"}}), state)
    assert found.status is status
