"""ready.py on nodes as vendors and sites leave them: what is wrong is named, nothing is changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import tests.lab as lab
from tests.e2e.conftest import Boot
from tests.e2e.driving import Outcome, deploy, on

pytestmark = pytest.mark.long

# Scenario to the one check that must name it.
IMAGES = {
    "image-cuda-list": "ready.repositories",
    "image-list-without-key": "ready.repositories",
    "image-stale-list": "ready.repositories",
    "image-own-driver": "ready.driver",
    "image-runfile-driver": "ready.driver",
    "image-secure-boot": "ready.secure-boot",
    "image-kernel-without-headers": "ready.headers",
    "image-port-taken": "ready.ports",
    "image-old-release": "ready.system",
    "image-other-architecture": "ready.system",
}
UNSEEN = {
    "no-python": "python3",
    "sudo-password": "sudo asks for a password",
    "no-ssh": "Unable to connect to port 22",
}
HEALTHY = ("no-mirror", "full-boot", "no-python", "no-ssh")
READY = ("image-ordinary-user", "image-site-services")
SCENARIOS = [*IMAGES, "image-sudo-password", *READY, *["healthy"] * len(HEALTHY)]
KINDS = [*IMAGES, "sudo-password", *READY, *HEALTHY]
NODES = {kind: f"b200-{number}" for number, kind in enumerate(KINDS, 1)}
FAULTS = {**IMAGES, "no-mirror": "ready.repositories", "full-boot": "ready.room"}
# All that a change would change: files with their times, packages, units.
LOOK = (
    "find /etc /usr /opt /srv /boot /root /home /var/lib /var/cache /var/spool -xdev"
    " -path /var/lib/systemd -prune -o -path /var/lib/b200-lab -prune -o -printf '%p %T@ %m %s\\n'"
    " | sort; systemctl list-unit-files --no-legend --no-pager;"
    " systemctl list-units --all --type=service,socket,timer --plain --no-legend --no-pager"
    " | grep -vE 'session-|systemd-tmpfiles-clean|systemd-hostnamed|user-runtime-dir|user@|ssh@'"
)


def looked() -> dict[str, list[str]]:
    """Every node as it is."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip(NODES, pool.map(_look, NODES.values()), strict=True))


def _look(name: str) -> list[str]:
    # systemctl makes its columns as wide as the longest unit of the moment.
    lines = [" ".join(line.split()) for line in on(name, LOOK).splitlines()]
    assert len(lines) > 1000, lines
    return lines


def changed(before: dict[str, list[str]], after: dict[str, list[str]]) -> dict[str, set[str]]:
    """Lines that only one of two looks has, by node; nodes without any are left out."""
    found = {kind: set(before[kind]) ^ set(after[kind]) for kind in before}
    return {kind: lines for kind, lines in found.items() if lines}


@pytest.fixture(scope="module")
def before(boot: Boot) -> dict[str, list[str]]:
    """All nodes, as they are before anybody asks."""
    boot(*SCENARIOS)
    lab.block_mirror(NODES["no-mirror"])
    lab.small_disk(NODES["full-boot"], "/boot", 10)
    on(NODES["full-boot"], "head -c 6000000 /dev/zero > /boot/initrd.img-$(uname -r)")
    on(NODES["no-python"], "mv /usr/bin/python3 /usr/bin/python3.away")
    on(NODES["no-ssh"], "systemctl stop ssh.service ssh.socket")
    return looked()


@pytest.fixture(scope="module")
def asked(before: object) -> Outcome:
    """What ready.py says of all."""
    return deploy("ready.py")


def test_every_mistake_is_named_by_its_check_alone(asked: Outcome) -> None:
    assert asked.code == 1, asked.said[-3000:]
    named = {}
    for kind in FAULTS:
        verdict = asked.host(NODES[kind]).get("verdict") or {"findings": []}
        blocking = [f for f in verdict["findings"] if f["status"] in ("fail", "unmeasured")]
        # Where the mirror is away, each repository is a line.
        named[kind] = {finding["check"] for finding in blocking}
    assert named == {kind: {check} for kind, check in FAULTS.items()}
    assert {asked.outcome(NODES[kind]) for kind in FAULTS} == {"not ready"}


def test_node_that_cannot_be_looked_at_is_named_and_not_ready(asked: Outcome) -> None:
    for kind, word in UNSEEN.items():
        described = asked.described(NODES[kind])
        assert word in described, described
        assert asked.outcome(NODES[kind]) in ("failed", "unreachable")


def test_what_a_run_deals_with_is_a_note(asked: Outcome) -> None:
    assert {kind: asked.outcome(NODES[kind]) for kind in READY} == dict.fromkeys(READY, "ready")
    noted = " ".join(asked.stdout.split())
    for unit in ("ufw.service is active", "unattended-upgrades.service is active"):
        assert unit in noted


def test_ready_changes_nothing(before: dict[str, list[str]], asked: Outcome) -> None:
    assert changed(before, looked()) == {}


def test_deploy_changes_nothing_on_a_node_that_is_not_ready(
    before: dict[str, list[str]], asked: Outcome
) -> None:
    kinds = ("image-secure-boot", "image-cuda-list", "sudo-password", "no-python")
    limits = [word for kind in kinds for word in ("--limit", NODES[kind])]
    run = deploy("b200.py", *limits)
    assert run.code == 1
    assert {run.outcome(NODES[kind]) for kind in kinds} == {"failed"}, run.said[-3000:]
    assert changed(before, looked()) == {}
