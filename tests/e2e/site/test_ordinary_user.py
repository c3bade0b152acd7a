"""A node that lets no root in: the whole road as a user with sudo, over one reboot."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from b200kit.reprovision import ledger
from b200kit.reprovision.actions import evidence
from tests.e2e.conftest import Boot
from tests.e2e.driving import Outcome, deploy, on, plan
from tests.lab import inject
from tests.lab.hardware.image import USER

pytestmark = pytest.mark.long

NODE = "b200-1"
SSHD = "journalctl -o cat --no-pager -t sshd"


@pytest.fixture(scope="module")
def asked(boot: Boot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """What ready.py says of the bare node."""
    folder = tmp_path_factory.mktemp("mending")
    boot("image-ordinary-user")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ledger.VARIABLE, str(folder / "transactions"))
        patch.setenv(evidence.VARIABLE, str(folder / "evidence"))
        yield deploy("ready.py")


@pytest.fixture(scope="module")
def served(asked: Outcome) -> Outcome:
    """The node is provisioned."""
    return deploy()


@pytest.fixture(scope="module")
def mended(served: Outcome) -> Outcome:
    """It was taken out of service, and came back by a reboot."""
    inject(NODE, "cured-by-reboot")
    return deploy("reprovision.py")


def test_bare_node_is_ready(asked: Outcome) -> None:
    assert asked.outcome(NODE) == "ready", asked.said[-3000:]


def test_node_is_live_and_planned_as_such(served: Outcome) -> None:
    assert served.outcome(NODE) == "live", served.described(NODE)
    assert plan().code == 0


def test_second_run_changes_nothing(served: Outcome) -> None:
    again = deploy()
    assert again.code == 0, again.said[-3000:]
    assert again.host(NODE)["changes"] == 0, again.host(NODE)["stages"]


def test_check_and_smoke_pass(served: Outcome) -> None:
    checked, measured = deploy("check.py"), deploy("smoke.py")
    assert checked.outcome(NODE) == "fit", checked.described(NODE)
    assert measured.code == 0, measured.said[-3000:]


def test_fault_is_mended_over_a_reboot_with_evidence(mended: Outcome) -> None:
    assert mended.code == 0, mended.said[-6000:]
    history = mended.host(NODE)["reprovision"]["history"]
    acts = [step["action"] for step in history if step["action"].startswith("action")]
    assert acts[-1] == "action: reboot", history
    with tarfile.open(Path(mended.host(NODE)["reprovision"]["evidence"])) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    # Root's alone on the node.
    assert {"journal.log", "manifest.json"} <= names


def test_nobody_but_the_user_ever_entered(mended: Outcome) -> None:
    log = on(NODE, SSHD)
    assert f"Accepted publickey for {USER} " in log
    assert "Accepted publickey for root" not in log
    assert on(NODE, "sshd -T | grep -i ^permitrootlogin") == "permitrootlogin no"


def test_nothing_that_runs_as_root_was_left_to_the_user(mended: Outcome) -> None:
    places = "/etc /usr /opt /srv /var/lib /run/b200kit"
    assert on(NODE, f"find {places} -xdev -user {USER} -not -path '/var/lib/systemd/*'") == ""
