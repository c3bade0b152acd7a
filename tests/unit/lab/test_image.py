"""Images of vendors and sites: which there are, and how each is entered."""

from __future__ import annotations

from tests.e2e.site.test_ready_lab import SCENARIOS
from tests.lab.hardware import image, scenario

# That of a system of its own: tests/e2e/systems/test_ubuntu_2404.py.
UBUNTU = "image-ubuntu-first-boot"


def test_ready_is_tried_on_every_image() -> None:
    known = {name for name in scenario.names() if name.startswith("image-")}
    assert len(known) >= 11
    assert known <= {*SCENARIOS, UBUNTU}


def test_host_that_is_kept_is_entered_as_before_whatever_was_injected() -> None:
    wanted = {"b200-1": "cured-by-reboot", "b200-2": "image-sudo-password"}
    kept = [{"name": "b200-1", "login": image.login("image-ordinary-user")}]
    assert image.users(image.entries([*wanted], wanted, kept)) == dict.fromkeys(wanted, "ops")
    assert image.users(image.entries([*wanted], wanted, [])) == {"b200-2": "ops"}
