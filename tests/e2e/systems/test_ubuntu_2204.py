"""A node of Ubuntu 22.04's shape, whose python3 is 3.10, from its first boot to live."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import SHORT_SMOKE, Boot
from tests.e2e.driving import Outcome, cursor, deploy, on, remote_commands

pytestmark = pytest.mark.long

NODE = "b200-1"
# One observation, and the lock given back.
FEWEST = 2


@pytest.fixture(scope="module")
def first(boot: Boot) -> Outcome:
    state = boot("image-ubuntu-first-boot", system="ubuntu2204")
    assert state["engine"]["python"] == "python3.10"
    return deploy("b200.py", *SHORT_SMOKE)


def test_node_gets_live_under_python_3_10(first: Outcome) -> None:
    assert first.code == 0, first.said[-3000:]
    assert first.host(NODE)["state"]["host"]["os"]["version_id"] == "22.04"
    assert on(NODE, "python3 --version").startswith("Python 3.10")
    assert on(NODE, "systemctl --failed --plain --no-legend") == ""


def test_second_run_changes_nothing_in_two_commands(first: Outcome) -> None:
    assert first.code == 0, first.described(NODE)
    before = cursor(NODE)
    again = deploy("b200.py", *SHORT_SMOKE)
    assert (again.code, again.host(NODE)["changes"]) == (0, 0), again.host(NODE)["stages"]
    assert remote_commands(NODE, before) == again.host(NODE)["commands"] == FEWEST
