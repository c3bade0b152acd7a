"""A node that lets no root in and whose sudo asks for a password: the whole road, and off again."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from b200kit.reprovision.actions import evidence
from b200kit.run.remote import SUDO_PASSWORD
from b200kit.store import database
from tests.e2e.conftest import Boot
from tests.e2e.driving import Outcome, deploy, front, on, plan
from tests.e2e.tools import left
from tests.lab import inject
from tests.lab.hardware.image import USER

pytestmark = pytest.mark.long

NODE = "b200-1"
SSHD = "journalctl -o cat --no-pager -t sshd"
PASSWORD = "open-sesame-4711"
# To the controller alone: what the tests run on the node past SSH inherits their environment.
GIVEN = {SUDO_PASSWORD: PASSWORD}
# Who sees it in an argument list or an environment of any process, root's own included.
_WATCH = """
printf '[Service]\\nNice=19\\nExecStart=/root/watch\\n[Install]\\nWantedBy=multi-user.target\\n' \\
    >/etc/systemd/system/watch-words.service
cat >/root/watch <<'END'
#!/bin/sh
while :; do
    grep -slF -f /root/word /proc/[0-9]*/cmdline /proc/[0-9]*/environ >>/root/seen; sleep 1
done
END
chmod 755 /root/watch; touch /root/seen; systemctl enable -q --now watch-words.service
"""
#: What is on a node after it was deployed to and b200kit removed, and was not before: why.
STAYS = {
    r"^. (package|hold|unit|content|path) .*(nvidia|cuda|nvlsm|libnv|datacenter-gpu|dkms)": (
        "the driver and its tools, which stay"
    ),
    r"^. (package|content) .*(infiniband|libib)": "what the driver's fabric manager needs",
    r"^. path /usr/lib/(modules|modprobe\.d)|^- path /opt$": "a package of the driver owns it now",
    r"^. content .*/etc/ld\.so\.cache$": "the linker's, of the libraries that are there",
    r"^. (path|content) .*/(var/lib/(dpkg|apt|systemd|dbus|ucf)|var/(cache|log|tmp)|etc/ssl)/": (
        "the distribution's own books"
    ),
    r"^. (path|content) .*/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$": "compared by name",
    r"^. (path|content) .*(/root/(word|seen|watch)|/home/ops|/etc/b200-lab/)": "this test's own",
    r"^. path /var/lib/haproxy": "the log socket that HAProxy's package makes and does not purge",
    r"^. path /srv/models": "the models, which stay",
}


@dataclass(frozen=True)
class Bare:
    """What ready.py says of the bare node, and what was on it."""

    asked: Outcome
    before: dict[str, set[str]]


@pytest.fixture(scope="module")
def asked(boot: Boot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    """A bare node whose user has a password."""
    folder = tmp_path_factory.mktemp("mending")
    boot("image-sudo-password")
    on(NODE, f"echo {USER}:{PASSWORD} | chpasswd; printf {PASSWORD} >/root/word")
    # Another shell: the words of the first one have it.
    on(NODE, _WATCH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(database.VARIABLE, str(folder / "b200.db"))
        patch.setenv(evidence.VARIABLE, str(folder / "evidence"))
        before = left.state(NODE)
        yield Bare(deploy("ready.py", **GIVEN), before)


@pytest.fixture(scope="module")
def served(asked: Bare) -> Outcome:
    """The node is provisioned, by somebody who types the password."""
    return front("deploy", "-K", stdin=f"{PASSWORD}\n")


@pytest.fixture(scope="module")
def mended(served: Outcome) -> Outcome:
    """It was taken out of service, and came back by a reboot."""
    inject(NODE, "cured-by-reboot")
    return deploy("reprovision.py", **GIVEN)


@pytest.fixture(scope="module")
def removed(mended: Outcome) -> Outcome:
    """b200kit was taken off it."""
    return front("remove", NODE, "-y", **GIVEN)


def test_bare_node_is_ready(asked: Bare) -> None:
    assert asked.asked.outcome(NODE) == "ready", asked.asked.said[-3000:]


def test_wrong_password_is_one_line(asked: Bare) -> None:
    refused = front("ready", **{SUDO_PASSWORD: "wrong"})
    assert (refused.code, refused.host(NODE)["cause"]) == (1, "sudo-refused")
    assert refused.stdout.count("refuses the password") == 1, refused.said


def test_node_is_live_and_planned_as_such(served: Outcome) -> None:
    assert served.outcome(NODE) == "live", served.described(NODE)
    assert plan(**GIVEN).code == 0


def test_second_run_changes_nothing(served: Outcome) -> None:
    again = deploy(**GIVEN)
    assert again.code == 0, again.said[-3000:]
    assert again.host(NODE)["changes"] == 0, again.host(NODE)["stages"]


def test_check_and_smoke_pass(served: Outcome) -> None:
    checked, measured = deploy("check.py", **GIVEN), deploy("smoke.py", **GIVEN)
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


def test_the_password_is_nowhere(served: Outcome, mended: Outcome) -> None:
    for run in (served, mended):
        assert PASSWORD not in run.said
        assert run.directory is not None
        found = [f for f in run.directory.rglob("*") if f.is_file() and _says(f)]
        assert found == []
    assert on(NODE, "systemctl is-active watch-words.service; cat /root/seen") == "active"
    places = "/etc /home /opt /run /srv /tmp /usr/local /var"
    assert on(NODE, f"grep -rslF -f /root/word {places} --exclude-dir=udev") == ""
    assert on(NODE, "journalctl --no-pager -o cat | grep -cF -f /root/word") == "0"


def _says(file: Path) -> bool:
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return PASSWORD.encode() in content


def test_removal_leaves_what_is_named_and_nothing_else(asked: Bare, removed: Outcome) -> None:
    assert removed.code == 0, removed.said[-3000:]
    found = left.differences(asked.before, left.state(NODE), STAYS)
    assert found == [], "\n".join(found)


def test_removal_again_changes_nothing(removed: Outcome) -> None:
    again = front("remove", NODE, "-y", **GIVEN)
    assert (again.code, again.host(NODE)["changes"]) == (0, 0), again.said[-3000:]
