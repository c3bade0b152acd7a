"""Mistakes of real sites, each named in one line before a change, by ready.py and by b200.py."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from b200kit.node.lib import timestamp
from tests.fake.fleet import Fleet, Outcome
from tests.fake.machine import KERNEL, READINESS, Machine, State
from tests.messages import assert_message
from tests.unit import states

MIRROR = "https://mirror.example.internal/apt/"
# As apt 2.6 says it: tests/unit/node/packages/test_apt_trial.py has it from the real one.
CONFLICT = (
    f"Conflicting values set for option Signed-By regarding source {MIRROR} ./: "
    "/usr/share/keyrings/cuda-archive-keyring.gpg != -----BEGIN PGP PUBLIC KEY BLOCK-----"
)
NO_KEY = f"The repository '{MIRROR} ./ InRelease' is not signed."
WEAK_KEY = NO_KEY.rstrip(".") + (
    f": Signing key on {'0' * 40} is not bound: SHA1 is not considered secure since "
    "2026-02-01T00:00:00Z"
)
REFUSED = f"Failed to fetch {MIRROR}./InRelease Could not connect (111: Connection refused)"
NOT_INSTALLABLE = "nvidia-driver : Depends: nvidia-installer-cleanup but it is not installable"
DEBIAN = {"id": "debian", "version_id": "12", "pretty": "Debian GNU/Linux 12 (bookworm)"}
JAMMY = {"id": "ubuntu", "version_id": "22.04", "pretty": "Ubuntu 22.04.5 LTS"}
LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86.15"


def host(**changes: Any) -> State:
    """The hardware of a sound node with another system."""
    hardware = states.healthy()
    hardware["host"] |= changes
    return hardware


def reading(**changes: Any) -> State:
    """Readings of a node before its first change."""
    return {"readiness": {**READINESS, "headers": {KERNEL: True}, **changes}}


def apt(**changes: Any) -> State:
    """What a node's apt says."""
    return {"apt": changes}


def free(bytes_of: dict[str, int]) -> State:
    """Free bytes by path; there is room elsewhere."""
    paths = {"/opt/vllm": 10**13, "/srv/models": 10**13, **bytes_of}
    return {"disks": {p: {"total_bytes": 10**13, "free_bytes": n} for p, n in paths.items()}}


# What is set on a machine: its hardware, readings of its own, what its apt says.
MISTAKES: dict[str, State] = {
    "old-system": {"hardware": host(os={**DEBIAN, "version_id": "11", "pretty": "Debian 11"})},
    "old-python": {"hardware": host(os=JAMMY, python="3.10.12")},
    "clock": {"readings": {"taken_at": timestamp.text(datetime.now(UTC) - timedelta(hours=9))}},
    "unreachable": apt(update=[REFUSED], install=None),
    "other-key": apt(update=[NO_KEY], install=None),
    "weak-key": apt(update=[WEAK_KEY], install=None),
    "two-lists": apt(
        update=[CONFLICT],
        install=None,
    ),
    "no-candidate": apt(problems=[f"apt has no nvlsm 2025.06.11-1; asked: {MIRROR}"]),
    "no-contrib": {
        "hardware": host(os=DEBIAN, python="3.12.3"),
        "apt": {"install": [NOT_INSTALLABLE]},
    },
    "no-headers": {
        "readings": reading(headers={KERNEL: False}),
        "apt": {"missing": [f"linux-headers-{KERNEL}"]},
    },
    "secure-boot": {"readings": reading(secure_boot=True, signing_key_enrolled=False)},
    "runfile": {"readings": reading(driver={"files": {LIBRARY: None}, "runfile": True})},
    "image-driver": {"readings": reading(driver={"files": {LIBRARY: None}, "runfile": False})},
    "port-taken": {"readings": {"listening": ["0.0.0.0:22", "0.0.0.0:8001"]}},
    "boot-full": {
        "readings": {
            "boot": {"own_file_system": True, "largest_initramfs_bytes": 90_000_000},
            **free({"/boot": 120_000_000}),
        }
    },
    "disk-full": {"readings": free({"/opt/vllm": 900_000_000})},
    "virtual": {
        "hardware": states.recorded("healthy-hgx-b200-vm"),
        "readings": reading(virtualization="kvm"),
    },
    "no-gpu": {"hardware": states.healthy() | {"pci": {"gpus": [], "nics": []}}},
    "efi-unread": {"readings": reading(secure_boot={"unmeasured": "efivarfs is not mounted"})},
}
# What a run deals with is a note, and no mistake.
NOTED = {
    "readings": reading(virtualization="kvm"),
    "units": {
        "ufw.service": {"active": "active"},
        "unattended-upgrades.service": {"active": "active"},
    },
}


def plant(machine: Machine, mistake: State) -> None:
    """Make it so."""
    vars(machine).update(mistake)
    machine.save()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A sound bare node, one with things to know of, and one a mistake."""
    fleet = Fleet(tmp_path_factory.mktemp("ready") / "site")
    fleet.add("sound")
    plant(fleet.add("noted"), NOTED)
    for name, mistake in MISTAKES.items():
        plant(fleet.add(name), mistake)
    return fleet


@pytest.fixture(scope="module")
def asked(fleet: Fleet) -> Outcome:
    """What ready.py says of all."""
    return fleet.run("ready.py")


def test_every_mistake_is_named_with_what_to_do(fleet: Fleet, asked: Outcome) -> None:
    assert asked.code == 1
    bad = {name: run for name, run in asked.outcomes.items() if run != "ready"}
    assert bad == {**dict.fromkeys(MISTAKES, "not ready"), "efi-unread": "unmeasured"}
    for name in MISTAKES:
        findings = asked.hosts[name]["verdict"]["findings"]
        blocking = [f for f in findings if f["status"] in ("fail", "unmeasured")]
        assert len(blocking) == 1, (name, blocking)
    summaries = [f"{name}: {asked.hosts[name]['error']}" for name in MISTAKES]
    text = "\n".join(summaries).replace(str(fleet.folder), "SITE")
    assert_message(*re.sub(r"\d+ hours", "N hours", text).splitlines())


def test_sound_nodes_are_ready_and_what_a_run_deals_with_is_noted(asked: Outcome) -> None:
    [sound] = [line for line in asked.stdout.splitlines() if line.startswith("sound ")]
    assert re.search(r"ready +18 checks", sound), asked.stdout
    for word in ("virtual machine (kvm)", "ufw.service is active", "unattended-upgrades.service"):
        assert word in " ".join(asked.stdout.split())
        assert word not in sound


def test_ready_changes_nothing_and_takes_two_commands_a_node(fleet: Fleet, asked: Outcome) -> None:
    for name in fleet.names:
        machine = fleet.machine(name)
        assert machine.files == machine.packages == {}, name
        assert not machine.ran("put|packages install|systemctl"), name
        programs = machine.ran("node.pyz")
        # The first finds no program on the node.
        assert programs[-1] in ("node.pyz apt-trial", "node.pyz observe")
        assert asked.hosts[name]["commands"] <= 4, machine.log


def test_deploy_changes_nothing_where_it_is_not_ready_and_the_others_go_on(
    fleet: Fleet, asked: Outcome
) -> None:
    assert asked.code == 1
    names = ["sound", "old-python", "efi-unread"]
    for name in names:
        machine = fleet.machine(name)
        machine.log.clear()
        machine.save()
    few = [word for name in names for word in ("--limit", name)]
    run = fleet.run("b200.py", *few)
    assert run.outcomes == dict.fromkeys(names, "failed") | {"sound": "live"}, run.stderr
    said = [line for line in run.stderr.splitlines() if re.match(r"\S+ +ready ", line)]
    assert_message(*(line.replace(str(fleet.folder), "SITE") for line in sorted(said)))
    for name in names[1:]:
        machine = fleet.machine(name)
        assert run.hosts[name]["stage"] == "ready"
        assert machine.files == machine.packages == {}, name
        assert not machine.ran("put|packages install|systemctl"), name
    assert len(fleet.machine("sound").ran("apt-trial")) == 1


@pytest.mark.process
def test_system_other_than_the_inventorys_is_refused_before_a_change(
    fleet: Fleet, asked: Outcome
) -> None:
    assert asked.code == 1
    run = fleet.run("b200.py", "--limit", "noted", "--data", "system=debian13")
    assert run.outcomes == {"noted": "failed"}
    assert_message(run.described("noted"))
    assert not fleet.machine("noted").ran("put|packages install|systemctl")
