"""The lockstep set over its life: taken back to an older branch and upgraded, one reboot each.

The older branch's NVML offers less than the judge asks of the later one. Beside the vendor's
repository the node knows an archive of origin Ubuntu with newer packages of the same names, as a
real Ubuntu node does: they never get in. It runs a real docker, whose specification of the GPUs
follows the driver. At night the set is taken back once more, and a package of another version is
forced in by hand, found out and replaced.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

import tests.lab as lab
from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, deploy, on, plan
from tests.lab import inventory, node_faults
from tests.lab.supply import container_engines

NODE = "b200-1"
FIRST, LATER, OLDER = "570.133.20", "580.159.03", "570.124.06"
OPEN = ("nvidia-open", "nvidia-persistenced")
FABRIC = ("nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm")
FOLLOWERS = ("nvidia-kernel-open-dkms", "libnvidia-compute", "nvidia-modprobe")
TOOLS = ("cuda_toolkit=12-8", "nccl=2.27.7-1+cuda12.9", "dcgm=4.4.1")
DCGM = "datacenter-gpu-manager-4"
DAEMON_JSON = "/etc/docker/daemon.json"


def of(version: str) -> set[str]:
    """The set under a version's names: below 580 the branch is part of those of the fabric."""
    suffix = "" if version.startswith("580.") else f"-{version[:3]}"
    return {*OPEN, *(f"{name}{suffix}" for name in FABRIC)}


def to_hold(version: str) -> set[str]:
    """What must be held beside a version of the driver."""
    cuda = 13 if version.startswith("580.") else 12
    dcgm = {f"{DCGM}-{part}" for part in ("core", "proprietary", f"cuda{cuda}")}
    return {*of(version), *dcgm, "nvlsm", "cuda-toolkit-12-8", "libnccl2"}


@dataclass(frozen=True)
class Step:
    """One run, and how often the node booted during it."""

    outcome: Outcome
    boots: int
    new_boot_id: bool


def data(version: str) -> list[str]:
    """What the inventory says otherwise, as arguments."""
    engines = json.dumps([*inventory.nodes()[0][1]["repositories"], container_engines.entry()])
    docker = (f"repositories={engines}", 'container_runtimes=["docker"]')
    return [word for value in (f"driver={version}", *TOOLS, *docker) for word in ("--data", value)]


def run(version: str) -> Step:
    """Deploy the node with one driver version and count its boots."""
    before, boot_id = boots(), on(NODE, "cat /proc/sys/kernel/random/boot_id")
    outcome = deploy("b200.py", *data(version))
    after = on(NODE, "cat /proc/sys/kernel/random/boot_id")
    return Step(outcome, boots() - before, after != boot_id)


def boots() -> int:
    """How often the node has booted since its disk was made, as its firmware counts."""
    return int(on(NODE, "cat /var/lib/b200-lab/boots"))


def installed() -> dict[str, str]:
    """Version of each package of the driver's own version, upstream part only."""
    names = " ".join(f"'{name}*'" for name in (*OPEN, *FABRIC, *FOLLOWERS))
    form = "${db:Status-Abbrev} ${Package} ${Version}\\n"
    lines = on(NODE, f"dpkg-query -W -f '{form}' {names} | sed -n 's/^.i *//p'")
    return {
        name: version.removesuffix("-1") for name, version in map(str.split, lines.splitlines())
    }


def whole(version: str) -> dict[str, str]:
    """What must be installed, and nothing else of these names."""
    return dict.fromkeys((*of(version), *FOLLOWERS), version)


def held() -> set[str]:
    """Packages that are held."""
    return set(on(NODE, "apt-mark showhold").split())


def pins() -> list[str]:
    """Pinning packages that are installed."""
    return on(NODE, "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' 'nvidia-driver-pinning*' "
              "| sed -n 's/^.i *//p'").split()  # fmt: skip


@pytest.fixture(scope="module")
def older(live: Live) -> Step:
    """A node that serves gets an older branch, tools and docker; it knows Ubuntu's archive."""
    live(1)
    node_faults.add_archive(NODE)
    container_engines.publish()
    text = json.dumps(container_engines.DAEMON_JSON)
    on(NODE, f"mkdir -p /etc/docker && echo '{text}' > {DAEMON_JSON}")
    return run(FIRST)


def test_older_branch_is_live_after_exactly_one_reboot(older: Step) -> None:
    assert older.outcome.code == 0, older.outcome.said[-4000:]
    assert older.outcome.outcome(NODE) == "live", older.outcome.described(NODE)
    assert (older.boots, older.new_boot_id) == (1, True)


def test_set_is_of_one_version_and_held(older: Step) -> None:
    assert installed() == whole(FIRST)
    assert held() >= to_hold(FIRST)
    assert pins() == [f"nvidia-driver-pinning-{FIRST}"]
    assert on(NODE, "systemctl is-enabled nvidia-dcgm.service") == "enabled"


def test_package_that_apt_lacks_is_said(older: Step) -> None:
    [driver] = [s for s in older.outcome.host(NODE)["stages"] if s["name"] == "driver"]
    kernel = on(NODE, "uname -r")
    assert f"apt has none of linux-headers-{kernel}" in driver["detail"], driver


def test_second_run_changes_nothing_in_two_commands(older: Step) -> None:
    again = run(FIRST)
    record = again.outcome.host(NODE)
    assert again.outcome.code == 0, again.outcome.said[-3000:]
    assert (record["changes"], again.boots) == (0, 0), record["stages"]
    assert record["commands"] == 2


def test_archive_is_kept_out_though_its_packages_are_newer(older: Step) -> None:
    offered = on(NODE, "apt-cache madison nvidia-fabricmanager libnvidia-nscq nvidia-persistenced")
    assert offered.count("599.10.01-0ubuntu0.24.04.1") == 3
    refused = lab.run(NODE, ["apt-get", "-y", "install", "nvidia-fabricmanager-580"])
    assert "has no installation candidate" in refused.stderr, refused
    assert on(NODE, "apt-get -s dist-upgrade | grep -c '^Inst.*nvidia'") == "0"


def test_upgrade_of_the_system_does_not_move_a_set_whose_holds_were_taken_off(older: Step) -> None:
    every = " ".join(sorted(to_hold(FIRST)))
    on(NODE, f"apt-mark unhold {every}")
    moved = lab.run(NODE, ["apt-get", "-y", "dist-upgrade"])
    assert moved.returncode == 0, moved.stderr
    assert installed() == whole(FIRST)
    on(NODE, f"apt-mark hold {every}")


def test_real_docker_uses_cdi_and_keeps_what_its_owner_asked_for(older: Step) -> None:
    kept = json.loads(on(NODE, f"cat {DAEMON_JSON}"))
    assert kept == {**container_engines.DAEMON_JSON, "features": {"cdi": True}}
    dirs = on(NODE, "docker info --format '{{json .CDISpecDirs}}'")
    assert json.loads(dirs) == ["/etc/cdi", "/var/run/cdi"], older.outcome.described(NODE)
    listed = on(NODE, "nvidia-ctk cdi list").splitlines()
    assert {f"nvidia.com/gpu={name}" for name in [*range(8), "all"]} <= {*listed}
    assert drivers_of_docker(older.outcome) == [FIRST]


def drivers_of_docker(outcome: Outcome) -> list[str]:
    """The driver's versions that the specification of the GPUs names."""
    [found] = outcome.host(NODE)["state"]["containers"]["cdi"].values()
    drivers: list[str] = found["drivers"]
    return drivers


@pytest.fixture(scope="module")
def planned(older: Step) -> Outcome:
    """What a plan for the upgrade says."""
    return plan("b200.py", *data(LATER))


def test_plan_of_an_upgrade_says_versions_reboot_and_what_stops(planned: Outcome) -> None:
    said = planned.stderr
    assert f"nvidia-open {FIRST}-1 -> {LATER}" in said, said
    assert f"nvidia-fabricmanager {LATER}" in said
    stops = "b200-agent.service, haproxy.service, vllm.target, vllm@0.service, vllm@1.service"
    assert f"would stop {stops}, nvidia-" in said
    assert f"would reboot: the loaded nvidia module is {FIRST}" in said


def test_plan_changes_nothing(planned: Outcome) -> None:
    assert planned.code == 0
    assert installed()["nvidia-open"] == FIRST
    assert on(NODE, "systemctl is-active vllm@0.service haproxy.service").split() == ["active"] * 2


@pytest.fixture(scope="module")
def upgraded(planned: Outcome) -> Step:
    """The same command with a later version."""
    return run(LATER)


@pytest.fixture(scope="module")
def rolled_back(upgraded: Step) -> Step:
    """The same command with the first version again."""
    return run(FIRST)


@pytest.mark.parametrize(
    ("step", "version"),
    [("upgraded", LATER), pytest.param("rolled_back", FIRST, marks=pytest.mark.long)],
)
def test_other_version_is_live_after_exactly_one_reboot(
    request: pytest.FixtureRequest, step: str, version: str
) -> None:
    made: Step = request.getfixturevalue(step)
    assert made.outcome.code == 0, made.outcome.said[-4000:]
    assert made.outcome.outcome(NODE) == "live", made.outcome.described(NODE)
    assert (made.boots, made.new_boot_id) == (1, True)
    assert installed() == whole(version)
    assert on(NODE, "cat /sys/module/nvidia/version") == version
    assert held() >= to_hold(version)
    assert pins() == [f"nvidia-driver-pinning-{version}"]
    assert drivers_of_docker(made.outcome) == [version]


@pytest.mark.parametrize("step", ["upgraded", pytest.param("rolled_back", marks=pytest.mark.long)])
def test_replicas_are_stopped_before_the_set_is_replaced(
    request: pytest.FixtureRequest, step: str
) -> None:
    made: Step = request.getfixturevalue(step)
    [driver] = [s for s in made.outcome.host(NODE)["stages"] if s["name"] == "driver"]
    whats = driver["changes"]
    [stop] = [number for number, what in enumerate(whats) if what.startswith("stop ")]
    [install] = [number for number, what in enumerate(whats) if "nvidia-open " in what]
    assert whats.index("fetch the packages of the set") < stop < install


@pytest.fixture(scope="module")
def skewed(rolled_back: Step) -> Outcome:
    """Somebody takes the hold off and installs a fabric manager one patch older."""
    deb = node_faults.older_fabric_manager(NODE, OLDER)
    on(NODE, f"apt-mark unhold nvidia-fabricmanager-570 && dpkg -i {deb}")
    on(NODE, "systemctl restart nvidia-fabricmanager.service")
    return deploy("check.py", *data(FIRST))


@pytest.mark.long
def test_forced_skew_is_named(skewed: Outcome) -> None:
    assert skewed.code == 1
    findings = skewed.host(NODE)["verdict"]["findings"]
    message = {f["check"]: f["summary"] for f in findings if f["status"] == "fail"}
    assert message["packages.lockstep"] == (
        f"nvidia-fabricmanager-570 is {OLDER}-1, the running driver is {FIRST}"
    )
    assert "packages.versions" in message
    assert (
        message["packages.held"] == "nvidia-fabricmanager-570 is not held: an upgrade may skew it"
    )


@pytest.mark.long
def test_next_run_mends_it_without_a_reboot(skewed: Outcome) -> None:
    repaired = run(FIRST)
    assert repaired.outcome.code == 0, repaired.outcome.said[-4000:]
    assert repaired.boots == 0
    assert installed() == whole(FIRST)
    assert held() >= to_hold(FIRST)
    assert on(NODE, "systemctl is-active nvidia-fabricmanager.service vllm@0.service").split() == [
        "active",
        "active",
    ]
    assert run(FIRST).outcome.host(NODE)["changes"] == 0
