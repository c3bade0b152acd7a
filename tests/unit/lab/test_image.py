"""Images of vendors and sites: which there are, and how each is entered."""

from __future__ import annotations

from tests.e2e.site.test_ready_lab import SCENARIOS
from tests.lab.hardware import image, scenario
from tests.lab.paths import lab_paths
from tests.lab.ssh import ssh_config_text


def test_ready_is_tried_on_every_image() -> None:
    known = {name for name in scenario.names() if name.startswith("image-")}
    assert len(known) >= 11
    assert known <= set(SCENARIOS)


def test_only_an_image_without_login_of_root_is_entered_by_a_user() -> None:
    by_user = {name for name in scenario.names() if image.login(name)}
    assert by_user == {"image-ordinary-user", "image-sudo-password"}
    assert image.login("image-ordinary-user") == {"ssh_user": "ops", "_sudo": True}


def test_host_that_is_kept_is_entered_as_before_whatever_was_injected() -> None:
    wanted = {"b200-1": "cured-by-reboot", "b200-2": "image-sudo-password"}
    kept = [{"name": "b200-1", "login": image.login("image-ordinary-user")}]
    assert image.users(image.entries([*wanted], wanted, kept)) == dict.fromkeys(wanted, "ops")
    assert image.users(image.entries([*wanted], wanted, [])) == {"b200-2": "ops"}


def test_users_own_block_comes_before_the_one_for_all() -> None:
    text = ssh_config_text(lab_paths(), ["b200-1"], {"b200-1": "ops"})
    assert text.index("User ops") < text.index("User root")
