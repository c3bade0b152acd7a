"""Clock and logs, storage and firewall plan what differs, in order, and refuse before a change."""

from __future__ import annotations

import json
import shutil
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.keys import storage
from b200kit.node.facts import nft_rules
from b200kit.operations.observe import observe_request
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import Remote, RemoteError
from b200kit.stages import firewall as firewall_stage
from b200kit.stages import gate, serving
from tests.fake.machine import Machine
from tests.messages import assert_message, raises_message
from tests.unit.nodes import bare, look, make, planned, settled
from tests.unit.specs import REVISION
from tests.unit.stages.support.test_raid_plan import A, B, joined, seen

# Whoever reaches the gateway may ask for the share, too (test_proof.py).
UNASKED = {"share_port": None}
FIREWALL = {"allow": [{"port": 8000, "from": ["10.0.0.0/24"]}], "rollback_s": 10}
STORAGE = {"disks": [A, B]}
MOUNT = "srv-models.mount"
CHRONY = "/etc/chrony/sources.d/b200kit.sources"
TIMESYNCD = "/etc/systemd/timesyncd.conf.d/60-b200kit.conf"


def described(node: Node, name: str) -> str:
    """All a stage would change, in one text."""
    return "; ".join(planned(node, name))


def take_observation(machine: Machine, node: Node, **readings: Any) -> None:
    """Let the machine show other readings, and look."""
    machine.readings |= deepcopy(readings)
    look(node)


# Clock and logs


def test_node_without_a_time_service_gets_one(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    plan = planned(node, "clock and logs")
    assert plan[0].startswith("write /etc/systemd/journald.conf.d/60-b200kit.conf")
    assert plan[1] == "install logrotate, systemd-timesyncd"
    assert plan[-1] == "enable logrotate.timer, systemd-timesyncd.service"


@pytest.mark.parametrize("service", ["chrony.service", "ntpsec.service", "openntpd.service"])
def test_time_service_that_runs_is_respected(tmp_path: Path, service: str) -> None:
    node, machine = bare(tmp_path)
    machine.units[service] = {"active": "active", "enabled": "enabled"}
    look(node)
    assert "timesyncd" not in described(node, "clock and logs")


def test_time_service_that_is_installed_and_stopped_is_started(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.units["chrony.service"] = {"active": "inactive", "enabled": "disabled"}
    look(node)
    assert planned(node, "clock and logs")[-1] == "enable logrotate.timer, chrony.service"


@pytest.mark.parametrize(
    ("service", "path"), [("chrony.service", CHRONY), ("systemd-timesyncd.service", TIMESYNCD)]
)
def test_time_servers_are_given_to_the_service_that_runs(
    tmp_path: Path, service: str, path: str
) -> None:
    node, machine = bare(tmp_path, time_servers=["10.0.0.1", "ntp.example.internal"])
    machine.units[service] = {"active": "active", "enabled": "enabled"}
    look(node)
    make(node, "clock and logs")
    content = machine.text(path)
    assert "10.0.0.1" in content
    assert "ntp.example.internal" in content
    assert machine.ran(f"systemctl restart {service}")
    assert planned(node, "clock and logs") == []


def test_time_servers_for_a_service_without_drop_ins_are_refused(tmp_path: Path) -> None:
    node, machine = bare(tmp_path, time_servers=["10.0.0.1"])
    machine.units["ntp.service"] = {"active": "active", "enabled": "enabled"}
    look(node)
    with raises_message(StageFailed):
        planned(node, "clock and logs")


def test_clock_that_is_anothers_business_is_left_alone(tmp_path: Path) -> None:
    node, _ = bare(tmp_path, clock_synchronized=False)
    assert "timesyncd" not in described(node, "clock and logs")
    assert gate.expectation(node)["time_services"] is None


@pytest.mark.skipif(not shutil.which("logrotate"), reason="tests/e2e asks a node's own logrotate")
def test_logrotate_accepts_what_it_is_given(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    make(node, "clock and logs")
    config = tmp_path / "config"
    config.write_text(machine.text("/etc/logrotate.d/b200kit"))
    done = subprocess.run(
        ["logrotate", "-d", "-s", tmp_path / "state", config],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower(), done.stderr
    assert "rotating pattern: /var/log/fabricmanager.log" in done.stderr


# Storage


def test_models_lie_where_they_did_unless_storage_is_asked_for(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    assert planned(node, "storage") == []
    assert "storage" not in observe_request(node)
    assert serving.model_dir(node) == f"/srv/models/tiny-llama/{REVISION}"
    unit = serving.desired(node, node.layout() if node.replicas else ()).files
    assert not any(b"RequiresMountsFor" in file.content for file in unit)


def test_models_lie_in_the_store_and_replicas_wait_for_it(tmp_path: Path) -> None:
    node, _ = settled(tmp_path, storage={**STORAGE, "mount": "/data/models"})
    assert serving.model_dir(node).startswith("/data/models/tiny-llama/")
    files = {file.path: file.content for file in serving.desired(node, node.layout()).files}
    assert b"RequiresMountsFor=/data/models\n" in files["/etc/systemd/system/vllm@.service"]


def test_blank_disks_become_a_store_in_this_order(tmp_path: Path) -> None:
    node, machine = bare(tmp_path, storage=STORAGE)
    take_observation(machine, node, storage=seen())
    assert_message(*planned(node, "storage"))


def test_what_the_mount_will_hide_is_said(tmp_path: Path) -> None:
    node, machine = bare(tmp_path, storage=STORAGE)
    take_observation(machine, node, storage={**seen(), "entries": 3})
    assert_message(planned(node, "storage")[-1])


def test_store_that_is_there_needs_no_change(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, storage=STORAGE)
    machine.readings["storage"] = joined(
        {"type": "ext4", "uuid": storage.filesystem_uuid([A, B]), "label": "b200-models"},
        mounted=True,
    )
    machine.files["/srv/models"]["mode"] = 0o755
    look(node)
    assert planned(node, "storage") == []
    machine.files["/srv/models"]["owner"] = "nobody:nogroup"
    look(node)
    assert planned(node, "storage") == ["give /srv/models to root:root, 0755"]


def test_refusal_comes_before_any_change(tmp_path: Path) -> None:
    node, machine = bare(tmp_path, storage=STORAGE)
    take_observation(machine, node, storage=seen(signatures=[{"type": "ext4", "label": "data"}]))
    machine.log.clear()
    with raises_message(StageFailed):
        planned(node, "storage")
    assert machine.log == []


def test_mount_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    node, machine = bare(tmp_path, storage={"mount": "/srv/models"})
    with raises_message(StageFailed):
        planned(node, "storage")
    mount = {"device": "10.0.0.9:/models", "fstype": "nfs4", "options": "rw"}
    take_observation(machine, node, storage={**seen(), "mount": mount})
    assert planned(node, "storage") == []


# Firewall


def guarded(folder: Path, **changes: Any) -> tuple[Node, Machine]:
    """A bare node whose inventory asks for a firewall."""
    return bare(folder, firewall=FIREWALL | changes, proof=UNASKED)


def in_force(node: Node) -> list[str]:
    """The rules the kernel must have."""
    assert node.spec.firewall is not None
    return firewall_stage.rules(node, node.spec.firewall)


def test_firewall_is_no_ones_business_unless_asked_for(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    assert planned(node, "firewall") == []
    assert "firewall" not in observe_request(node)
    assert gate.expectation(node)["firewall"] is None


def test_rules_are_not_written_like_other_files_but_tried(tmp_path: Path) -> None:
    node, _ = guarded(tmp_path)
    assert_message(*planned(node, "firewall"))


def test_port_of_this_very_session_is_opened(tmp_path: Path) -> None:
    node, machine = guarded(tmp_path)
    take_observation(machine, node, firewall={"rules": None, "ssh_ports": [2222]})
    assert nft_rules.ports_of_ssh(in_force(node)) == [2222]


@pytest.mark.parametrize("reading", [[], {"unmeasured": "Permission denied"}])
def test_node_whose_port_of_ssh_is_not_known_is_left_alone(tmp_path: Path, reading: Any) -> None:
    node, machine = guarded(tmp_path)
    take_observation(machine, node, firewall={"rules": None, "ssh_ports": reading})
    with raises_message(StageFailed):
        planned(node, "firewall")


def proven(folder: Path) -> tuple[Node, Machine]:
    """A node on which the rules are in force."""
    node, machine = settled(folder, firewall=FIREWALL, proof=UNASKED)
    take_observation(machine, node, firewall={"rules": in_force(node), "ssh_ports": [22]})
    return node, machine


def test_rules_in_force_need_no_change(tmp_path: Path) -> None:
    node, _ = proven(tmp_path)
    assert planned(node, "firewall") == []


@pytest.mark.parametrize(
    "rules", [None, ["chain input hook input prio 0 policy accept"], {"unmeasured": "nft"}]
)
def test_kernel_that_has_other_rules_gets_ours(tmp_path: Path, rules: Any) -> None:
    node, machine = proven(tmp_path)
    take_observation(machine, node, firewall={"rules": rules, "ssh_ports": [22]})
    assert described(node, "firewall").startswith("open SSH, tcp 8000")


def test_unit_that_is_off_at_boot_is_enabled(tmp_path: Path) -> None:
    node, machine = proven(tmp_path)
    machine.units["b200-firewall.service"]["enabled"] = "disabled"
    look(node)
    assert planned(node, "firewall") == ["enable b200-firewall.service"]


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time passes when somebody sleeps; how long each slept."""
    slept: list[float] = []

    class Clock:
        """A clock that only sleeping moves."""

        @staticmethod
        def sleep(seconds: float) -> None:
            slept.append(seconds)

        @staticmethod
        def monotonic() -> float:
            return sum(slept)

    monkeypatch.setattr(firewall_stage, "time", Clock)
    return slept


def test_rules_are_kept_only_over_a_new_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, machine = guarded(tmp_path)
    monkeypatch.setattr(Remote, "connect_fresh", lambda self: machine.log.append("reconnect"))
    make(node, "firewall")
    acts = [line for line in machine.log if "firewall " in line or "reconnect" in line]
    assert acts == ["node.pyz firewall try --after 10", "reconnect", "node.pyz firewall keep"]


def test_node_that_lets_nobody_in_is_waited_for_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_wait: list[float]
) -> None:
    node, machine = guarded(tmp_path)
    tries = []

    def refuse(self: Remote) -> None:
        tries.append(sum(no_wait))
        if len(tries) == 1 or sum(no_wait) < 17:
            raise RemoteError("no new connection: timed out")

    monkeypatch.setattr(Remote, "connect_fresh", refuse)
    with raises_message(StageFailed):
        make(node, "firewall")
    assert not machine.ran("firewall keep")
    # It asks again only when the node's own timer must have run.
    assert tries[1] >= 15


def test_connection_that_came_only_after_the_roll_back_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_wait: list[float]
) -> None:
    node, machine = guarded(tmp_path)
    monkeypatch.setattr(Remote, "connect_fresh", lambda self: no_wait.append(12))
    with raises_message(StageFailed):
        make(node, "firewall")
    assert not machine.ran("firewall keep")


def test_node_that_stays_away_names_its_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_wait: list[float]
) -> None:
    def refuse(self: Remote) -> None:
        raise RemoteError("no new connection: timed out")

    node, _ = guarded(tmp_path)
    monkeypatch.setattr(Remote, "connect_fresh", refuse)
    with raises_message(StageFailed):
        make(node, "firewall")


def test_confirmation_that_comes_too_late_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_wait: list[float]
) -> None:
    node, machine = guarded(tmp_path)
    machine.answers["firewall keep"] = (False, "the rules were taken back before this came")
    monkeypatch.setattr(Remote, "connect_fresh", lambda self: None)
    with raises_message(StageFailed):
        make(node, "firewall")


def test_expectation_says_what_is_judged(tmp_path: Path) -> None:
    node, _ = bare(
        tmp_path, proof=UNASKED, firewall=FIREWALL, storage={**STORAGE, "min_free_gib": 2}
    )
    document = json.loads(json.dumps(gate.expectation(node)))
    assert document["firewall"] == [{"protocol": "tcp", "port": 8000, "source": "10.0.0.0/24"}]
    assert document["storage"] == {
        "mount": "/srv/models",
        "disks": [A, B],
        "room_bytes": 2 << 30,
        "stamp": f"/srv/models/tiny-llama/{REVISION}/.complete",
    }
    assert "chrony.service" in document["time_services"]
