"""A node of Ubuntu's shape, by an ordinary user with sudo, from its first boot to live.

What moves under a node of Ubuntu, each for real: cloud-init that is still at work, GRUB's files of
an image, an archive of the distribution with the driver's names, unattended-upgrades, needrestart.
Where it says "without", the same program runs without what b200kit laid down: the fault is there.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import tests.lab as lab
from tests.e2e.conftest import SHORT_SMOKE, Boot
from tests.e2e.driving import Outcome, cursor, deploy, on, remote_commands
from tests.lab.supply import archive

pytestmark = pytest.mark.long

NODE = "b200-1"
VERSIONS = {"python3 --version": "Python 3.12", "needrestart --version": "needrestart 3"}
# One observation, and the lock given back.
FEWEST = 2
OURS = (
    "/etc/apt/apt.conf.d/zz-b200kit",
    "/etc/apt/preferences.d/b200kit.pref",
    # The vendor's package that b200kit installs first.
    "/etc/apt/preferences.d/nvidia-driver-pinning-580.126.20.pref",
)
MANAGER = "nvidia-fabricmanager"


@pytest.fixture(scope="module")
def first(boot: Boot) -> Outcome:
    """The node is brought to live while cloud-init is at work."""
    state = boot("image-ubuntu-first-boot", system="ubuntu2404")
    assert state["engine"]["python"] == "python3.12"
    return deploy("b200.py", *SHORT_SMOKE)


def installed() -> str:
    """Version of each package of the driver's."""
    form = "${db:Status-Abbrev} ${Package} ${Version}\\n"
    return on(NODE, f"dpkg-query -W -f '{form}' '*nvidia*' '*nvsdm*' nvlsm | grep ^.i")


def upgradable(without: Sequence[str] = ()) -> str:
    """What an unattended upgrade would take, *without* some files of ours and the holds."""
    aside = [f"mv {path} {path}.aside" for path in without]
    back = [f"mv {path}.aside {path}" for path in without]
    held = "held=$(apt-mark showhold)"
    script = [held, *aside, "apt-mark unhold $held", "unattended-upgrade -v --dry-run 2>&1"]
    return on(NODE, "; ".join([*script, *back, "apt-mark hold $held >/dev/null"]))


def test_node_gets_live_and_every_report_says_what_it_is(first: Outcome) -> None:
    assert first.code == 0, first.said[-3000:]
    assert first.host(NODE)["state"]["host"]["os"]["version_id"] == "24.04"
    seen = {asked: on(NODE, f"{asked} | grep .") for asked in VERSIONS}
    assert [asked for asked, word in VERSIONS.items() if not seen[asked].startswith(word)] == []
    assert on(NODE, "systemctl --failed --plain --no-legend") == ""
    assert first.directory is not None
    assert "Ubuntu-shaped Debian 12" in (first.directory / "report.html").read_text()


def test_first_boot_was_over_before_the_first_change(first: Outcome) -> None:
    [host] = [stage for stage in first.host(NODE)["stages"] if stage["name"] == "host"]
    assert host["changes"][0].startswith("wait until cloud-init"), host
    done, source = (
        float(on(NODE, f"stat -c %.9Y {path}"))
        for path in (
            "/var/lib/b200-lab/first-boot-done",
            "/etc/apt/sources.list.d/b200kit-vendor.sources",
        )
    )
    assert done < source


def test_second_run_changes_nothing_in_two_commands(first: Outcome) -> None:
    before = cursor(NODE)
    again = deploy("b200.py", *SHORT_SMOKE)
    assert (again.code, again.host(NODE)["changes"]) == (0, 0), again.host(NODE)["stages"]
    assert remote_commands(NODE, before) == again.host(NODE)["commands"] == FEWEST


def test_command_line_survives_the_files_of_an_image(first: Outcome) -> None:
    assert first.code == 0, first.described(NODE)
    # Its file of 90 would have taken away what one of 60 had added.
    assert on(NODE, "ls /etc/default/grub.d").split()[-1] == "zz-b200kit.cfg"
    assert "init_on_alloc=0" in on(NODE, "cat /boot/grub/grub.cfg")
    assert "init_on_alloc=0" in on(NODE, "cat /proc/cmdline")
    assert on(NODE, "cat /proc/swaps").count("/swap.img") == 0


def test_stop_waits_for_what_computes_and_a_start_beside_it_names_it(first: Outcome) -> None:
    """Under Python 3.12, where asking who it is once failed exactly when there was somebody."""
    assert first.code == 0, first.described(NODE)
    unit, conf = "vllm@0.service", "/run/b200-lab/nvml.conf"
    begun = "systemd-run --quiet --unit=holder sleep 600; systemctl show -P MainPID holder"
    holder = on(NODE, begun)
    # It ends by itself once the stop waits for it, and no GPU is held any more.
    ends = f"mv /run/conf.kept {conf}; systemctl stop holder"
    waits = f"until systemctl show -P SubState {unit} | grep -q stop-post; do sleep 0.1; done"
    on(NODE, f"cp {conf} /run/conf.kept && echo gpu.1.processes={holder} >> {conf}")
    on(NODE, f"systemctl stop --no-block {unit}; timeout 60 sh -c '{waits}'")
    assert on(NODE, f"systemctl is-active {unit} || true") == "deactivating"
    on(NODE, f"{ends}; systemctl stop {unit}")
    assert on(NODE, f"systemctl show -P Result {unit}") == "success"
    again = on(NODE, begun)
    on(NODE, f"cp {conf} /run/conf.kept && echo gpu.1.processes={again} >> {conf}")
    try:
        assert lab.run(NODE, ["systemctl", "start", unit]).returncode != 0
        log = on(NODE, f"journalctl -u {unit} -b -o cat --no-pager -n 60")
        assert f"by pid {again} sleep of holder.service" in log, log
    finally:
        on(NODE, f"{ends}; systemctl reset-failed {unit}")
    assert lab.run(NODE, ["systemctl", "start", unit]).returncode == 0


def test_unattended_upgrade_leaves_the_set_alone(first: Outcome) -> None:
    assert first.code == 0, first.described(NODE)
    assert on(NODE, "apt-config dump APT::Periodic::Unattended-Upgrade").endswith('"0";')
    before = installed()
    on(NODE, "apt-get update && unattended-upgrade")
    assert installed() == before
    assert archive.NEWER not in upgradable()
    # Ubuntu's own files alone: the archive's fabric manager of tonight.
    assert MANAGER in upgradable(without=OURS).partition("Packages that will be upgraded")[2]


def test_needrestart_leaves_what_serves_alone(first: Outcome) -> None:
    assert first.code == 0, first.described(NODE)
    units = "vllm@0.service vllm@1.service nvidia-fabricmanager.service haproxy.service"
    asked = f"systemctl show -p InvocationID --value {units}"
    before = on(NODE, asked)
    # Python's library and libc are other files now: what runs has those that were deleted.
    for path in (
        "$(readlink -f /lib/x86_64-linux-gnu/libc.so.6)",
        "$(readlink -f /usr/bin/python3)",
    ):
        on(NODE, f"p={path}; cp -p $p $p.new && mv $p.new $p")
    conf = "/etc/needrestart/conf.d/60-b200kit.conf"
    without = on(NODE, f"mv {conf} /root; needrestart -b -r l; mv /root/60-b200kit.conf {conf}")
    assert "NEEDRESTART-SVC: vllm@0.service" in without, without
    done = lab.run(NODE, ["needrestart", "-q", "-r", "a"])
    assert done.returncode == 0, done.stderr
    assert on(NODE, asked) == before


@pytest.fixture(scope="module")
def mixed(first: Outcome) -> Outcome:
    """Somebody installs the distribution's build of the same version; check.py says so."""
    any_archive = "-o Dir::Etc::PreferencesParts=/dev/null -o Dir::Etc::Preferences=/dev/null"
    force = "--allow-downgrades --allow-change-held-packages"
    on(NODE, f"apt-get {any_archive} install -y {force} {MANAGER}={archive.SAME}")
    assert on(NODE, f"dpkg-query -W -f '${{Version}}' {MANAGER}") == archive.SAME
    on(NODE, f"apt-mark hold {MANAGER}")
    return deploy("check.py")


def test_package_of_the_other_archive_is_named(mixed: Outcome) -> None:
    failed = [f for f in mixed.host(NODE)["verdict"]["findings"] if f["status"] == "fail"]
    assert [f["check"] for f in failed] == ["packages.origin"], failed
    assert "apt/archive" in failed[0]["summary"]


def test_next_run_takes_the_inventorys_build_back(mixed: Outcome) -> None:
    mended = deploy("b200.py", *SHORT_SMOKE)
    assert mended.code == 0, mended.said[-3000:]
    assert on(NODE, f"dpkg-query -W -f '${{Version}}' {MANAGER}") == "580.126.20-1"
