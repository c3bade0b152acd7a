"""Container runtimes: CDI is switched on where it is off, and what cannot be done is refused."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.state import drift
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError
from b200kit.stages import gate
from b200kit.stages.support import container_runtimes
from tests.fake.machine import Machine
from tests.messages import assert_message, raises_message
from tests.unit import states
from tests.unit.nodes import bare, look, make, planned, provide

SPEC = "/var/run/cdi/nvidia.yaml"
DOCKER_PENDING = drift.pending_marker("restart:docker.service")


def offered(name: str, *versions: str, there: tuple[str, ...] = ()) -> tuple[bool, str]:
    """What the node's apt has of a package, and which packages are on the node."""
    return True, json.dumps({"versions": {name: versions}, "installed": there})


def reading() -> dict[str, Any]:
    """All three runtimes with CDI on, and a specification that fits the healthy node."""
    names = [str(index) for index in range(8)] + [g["uuid"] for g in states.healthy()["gpus"]]
    dirs = ["/etc/cdi", "/var/run/cdi"]
    return {
        "runtime_mode": "auto",
        "cdi": {
            SPEC: {
                "version": "0.5.0",
                "devices": {name: [] for name in [*names, "all"]},
                "missing": [],
                "drivers": ["580.105.08"],
                "hooks": ["nvidia-cdi-hook"],
            }
        },
        "docker": {
            "version": "26.1.5",
            "daemon": {
                "cdi_spec_dirs": dirs,
                "cgroup_driver": "systemd",
                "live_restore": False,
                "runc": "1.1.12",
            },
            "config": {"cdi": True, "spec_dirs": None},
            "running": {"db": "none"},
        },
        "containerd": {"version": "1.7.24", "config": {"cdi": True, "spec_dirs": dirs}},
        "podman": {"version": "5.4.2"},
    }


def prepared(folder: Path, *asked: str, **changes: Any) -> tuple[Node, Machine]:
    """A node with the toolkit and all runtimes as desired, but for changes of the reading.

    A key of *changes* is a path with "__": docker__daemon=None.
    """
    node, machine = bare(folder, container_runtimes=list(asked))
    machine.loaded = node.spec.driver
    seen = reading()
    for name, value in changes.items():
        *above, last = name.split("__")
        part = seen
        for key in above:
            part = part[key]
        part[last] = value
    machine.readings["containers"] = seen
    look(node)
    provide(machine, node, "containers")
    for name in asked:
        machine.files.pop(drift.pending_marker(container_runtimes.restart(name)), None)
    look(node)
    machine.log.clear()
    return node, machine


ALL = ("docker", "containerd", "podman")


def test_nothing_is_planned_where_all_is_as_asked(tmp_path: Path) -> None:
    node, _ = prepared(tmp_path, *ALL)
    assert planned(node, "containers") == []


def test_runtimes_are_only_looked_at_where_the_inventory_asks_for_them(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    stage = gate.expectation(node)
    assert stage["container_runtimes"] == []
    node, _ = prepared(tmp_path, "podman")
    assert gate.expectation(node)["container_runtimes"] == ["podman"]


def test_docker_with_cdi_off_gets_it_and_is_restarted(tmp_path: Path) -> None:
    node, machine = prepared(tmp_path, "docker", docker__daemon__cdi_spec_dirs=[])
    machine.answers["docker-cdi"] = (True, '{"changed": ["features.cdi"]}')
    (what,) = planned(node, "containers")
    assert_message(what)
    make(node, "containers")
    _, restarted = machine.ran("docker-cdi|systemctl restart")
    assert f"systemctl restart docker.service && rm -f {DOCKER_PENDING}" in restarted
    assert "daemon-reload" not in restarted


def test_live_restore_keeps_containers_through_the_restart(tmp_path: Path) -> None:
    node, _ = prepared(
        tmp_path, "docker", docker__daemon__cdi_spec_dirs=[], docker__daemon__live_restore=True
    )
    assert planned(node, "containers")[0].endswith("and restart docker")


def test_a_refused_merge_is_the_stages_one_line_and_nothing_is_restarted(tmp_path: Path) -> None:
    node, machine = prepared(tmp_path, "docker", docker__daemon__cdi_spec_dirs=[])
    line = "b200kit: /etc/docker/daemon.json: it is a link to /srv/x; nothing was changed"
    machine.answers["docker-cdi"] = (False, line)
    with raises_message(RemoteError):
        make(node, "containers")
    assert machine.ran("systemctl restart docker") == []


def test_a_restart_that_a_killed_run_left_pending_is_made(tmp_path: Path) -> None:
    node, machine = prepared(tmp_path, "docker")
    machine.write(DOCKER_PENDING)
    look(node)
    (what,) = planned(node, "containers")
    assert_message(what)
    make(node, "containers")
    assert planned(node, "containers") == []


def test_containerd_is_switched_on_and_its_containers_go_on(tmp_path: Path) -> None:
    node, machine = prepared(tmp_path, "containerd", containerd__config__cdi=False)
    machine.answers["nvidia-ctk"] = (True, "")
    (what,) = planned(node, "containers")
    assert_message(what)
    make(node, "containers")
    configured, _ = machine.ran("nvidia-ctk|systemctl restart containerd.service")
    assert "runtime configure --runtime=containerd --cdi.enabled" in configured


REFUSED = {
    "malformed": (
        {"docker__config": {"unmeasured": "ValueError: /etc/docker/daemon.json: Expecting value"}},
        "docker: /etc/docker/daemon.json: Expecting value; repair it, nothing was changed",
    ),
    "old docker": (
        {"docker__version": "20.10.24+dfsg1"},
        "docker 20.10.24+dfsg1 knows no CDI; it needs 25 or newer; "
        "install a newer one, nothing was changed",
    ),
    "old podman": ({"podman__version": "3.4.4"}, "podman 3.4.4 knows no CDI; it needs 4.1"),
    "no CRI": ({"containerd__config": None}, "containerd: its CRI plugin is disabled"),
    "unread": ({"docker": {"unmeasured": "no"}}, "docker: no; repair it"),
}


@pytest.mark.parametrize(("changes", "says"), REFUSED.values(), ids=REFUSED)
def test_what_a_run_must_not_touch_is_refused_before_anything_is_changed(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    node, machine = prepared(tmp_path, *ALL, **changes)
    machine.packages.clear()
    look(node)
    machine.log.clear()
    with pytest.raises(StageFailed) as caught:
        planned(node, "containers")
    assert says in str(caught.value)
    assert machine.log == []


def test_a_runtime_that_is_missing_is_installed_first(tmp_path: Path) -> None:
    node, machine = prepared(tmp_path, "docker", docker=None)
    machine.answers["packages offer .*docker.io"] = offered("docker.io", "26.1.5+dfsg1-9")
    machine.answers["docker-cdi"] = (True, '{"changed": ["features.cdi"]}')
    install, switch, generate = planned(node, "containers")
    assert_message(install)
    assert_message(switch)
    assert_message(generate)
    make(node, "containers")
    assert machine.packages["docker.io"]["hold"] is False


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        (["20.10.24+dfsg1-1+deb12u1"], "docker 20.10.24.* knows no CDI"),
        ([], "apt has no docker.io"),
    ],
)
def test_a_runtime_too_old_or_not_on_offer_is_not_installed(
    tmp_path: Path, versions: list[str], says: str
) -> None:
    node, machine = prepared(tmp_path, "docker", docker=None)
    machine.answers["packages offer"] = offered("docker.io", *versions)
    with pytest.raises(RemoteError, match=says):
        make(node, "containers")
    assert machine.ran("packages install .*docker.io") == []


def test_docker_ce_goes_with_a_containerd_that_is_dockers_own(tmp_path: Path) -> None:
    node, machine = prepared(tmp_path, "docker", docker=None)
    machine.answers["packages offer"] = offered("docker.io", "26.1.5", there=("containerd.io",))
    with raises_message(RemoteError):
        make(node, "containers")


STALE = {
    "driver": {"drivers": ["580.95.05"]},
    "library": {"missing": ["/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"]},
    "GPU": {"devices": {"0": [], "all": []}},
}


@pytest.mark.parametrize("changes", STALE.values(), ids=STALE)
def test_a_specification_that_does_not_fit_is_made_again(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    seen = deepcopy(reading()["cdi"][SPEC]) | changes
    node, machine = prepared(tmp_path, "podman", cdi={SPEC: seen})
    assert_message(*planned(node, "containers"))
    make(node, "containers")
    assert machine.ran("systemctl restart nvidia-cdi-refresh.service")


def test_an_older_specification_of_nvidia_ctk_is_put_away_and_anothers_stays(
    tmp_path: Path,
) -> None:
    spec = reading()["cdi"][SPEC]
    old = {SPEC: spec, "/etc/cdi/nvidia.yaml": spec, "/etc/cdi/site.yaml": spec}
    node, machine = prepared(tmp_path, "podman", cdi=old)
    machine.answers["mv -f"] = (True, "")
    (what,) = planned(node, "containers")
    assert what.startswith(
        "move /etc/cdi/nvidia.yaml to /var/lib/b200kit/backup/etc-cdi-nvidia.yaml"
    )
    make(node, "containers")
    old["/etc/cdi/nvidia.yaml"] = {**spec, "hooks": ["/opt/own-hook"]}
    assert prepared(tmp_path, "podman", cdi=old)[0].state
    assert planned(prepared(tmp_path, "podman", cdi=old)[0], "containers") == []


def test_podman_is_told_where_the_specification_is(tmp_path: Path) -> None:
    node, machine = prepared(tmp_path, "podman")
    path = "/etc/containers/containers.conf.d/60-b200kit.conf"
    del machine.files[path]
    look(node)
    assert planned(node, "containers")[0] == f"write {path}"


def test_containers_at_risk_are_named_before_the_first_daemon_reload(tmp_path: Path) -> None:
    running = {"db": "none", "notebook": "gpus"}
    node, _ = prepared(tmp_path, "docker", docker__running=running)
    assert_message(*container_runtimes.warnings(node))
    assert (
        container_runtimes.warnings(prepared(tmp_path, "podman", docker__running=running)[0]) == []
    )
    unread = {"unmeasured": "no"}
    assert (
        container_runtimes.warnings(prepared(tmp_path, "docker", docker__running=unread)[0]) == []
    )
