"""Container runtimes on nodes that run real ones: docker 26, containerd 1.7 and podman.

No container starts in a simulated node (its kernel refuses runc), so what a daemon-reload does to
one is not seen here; configuration, daemons and specifications are real but for nvidia-ctk.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.driving import Outcome, cursor, deploy, on, remote_commands
from tests.lab import inventory
from tests.lab.paths import lab_paths
from tests.lab.supply import container_engines

pytestmark = pytest.mark.long

FIRST, SECOND = "b200-1", "b200-2"
DAEMON_JSON, CONFIG_TOML = "/etc/docker/daemon.json", "/etc/containerd/config.toml"
SPEC, BACKUPS = "/var/run/cdi/nvidia.yaml", "/var/lib/b200kit/backup"
OWN = {"log-opts": {"max-size": "10m"}, **container_engines.DAEMON_JSON, "labels": ["rack=7"]}
BROKEN = json.dumps(OWN)[:-1]
DRIVER, LATER = "580.126.20", "580.159.03"


def put(name: str, path: str, text: str) -> None:
    """Write a file on a node as its owner would."""
    on(name, f"mkdir -p {path.rpartition('/')[0]}")
    (lab_paths().host(name) / "root" / path.lstrip("/")).write_text(text)


@pytest.fixture(scope="module")
def data(boot: Callable[..., Any]) -> list[str]:
    """Two fresh nodes and what the inventory says of them.

    The first has no runtime, but a daemon.json of its owner. The second has all its owner's, and a
    slip in its daemon.json.
    """
    boot("healthy", "healthy")
    engines = container_engines.publish()
    put(FIRST, DAEMON_JSON, json.dumps(OWN, indent=2))
    put(SECOND, DAEMON_JSON, json.dumps(OWN))
    bring_engines(SECOND, engines)
    put(SECOND, DAEMON_JSON, BROKEN)
    repositories = [*inventory.nodes()[0][1]["repositories"], engines]
    asked = ["docker", "containerd", "podman"]
    values = {"repositories": repositories, "container_runtimes": asked, "driver": DRIVER}
    return [word for key, value in values.items() for word in ("--data", argument(key, value))]


def argument(key: str, value: Any) -> str:
    """A value as pyinfra's command line takes it."""
    return f"{key}={value if isinstance(value, str) else json.dumps(value)}"


def bring_engines(name: str, source: dict[str, str]) -> None:
    """Install the runtimes as a node's owner did before us."""
    key = "/etc/apt/keyrings/owner.asc"
    line = f"deb [signed-by={key}] {source['url']} ./"
    with open(source["key"], encoding="utf-8") as file:
        put(name, key, file.read())
    put(name, "/etc/apt/sources.list.d/owner.list", f"{line}\n")
    on(name, "apt-get update && apt-get install -y --no-install-recommends docker.io docker-cli")
    on(name, "rm /etc/apt/sources.list.d/owner.list")
    message = on(name, "systemctl restart docker && echo up || journalctl -u docker -n 9 -o cat")
    assert message == "up", message


@pytest.fixture(scope="module")
def first(data: list[str]) -> Outcome:
    """The first run on both nodes."""
    return deploy("b200.py", *data)


@pytest.fixture(scope="module")
def repaired(first: Outcome, data: list[str]) -> tuple[Outcome, int]:
    """The run after the slip was repaired, and the remote commands it sent to the first node."""
    put(SECOND, DAEMON_JSON, json.dumps(OWN))
    before = cursor(FIRST)
    return deploy("b200.py", *data), remote_commands(FIRST, before)


@pytest.fixture(scope="module")
def stale(repaired: object, data: list[str]) -> Outcome:
    """A check of nodes whose specifications are older than their driver."""
    on(FIRST, f"sed -i 's/[.]so[.]{DRIVER}/.so.580.95.05/' {SPEC}")
    older = f"sed 's/[.]so[.]{DRIVER}/.so.570.133.20/' {SPEC} > /etc/cdi/nvidia.yaml"
    on(SECOND, f"mkdir -p /etc/cdi && {older}")
    return deploy("check.py", *data)


@pytest.fixture(scope="module")
def upgraded(stale: Outcome, data: list[str]) -> Outcome:
    """Both nodes with another driver."""
    return deploy("b200.py", *data[:-1], argument("driver", LATER))


def test_a_users_daemon_json_keeps_every_key(first: Outcome) -> None:
    assert first.outcome(FIRST) == "live", first.described(FIRST)
    text = on(FIRST, f"cat {DAEMON_JSON}")
    assert json.loads(text) == {**OWN, "features": {"cdi": True}}
    assert list(json.loads(text)) == [*OWN, "features"]
    assert '\n  "log-opts"' in text
    assert json.loads(on(FIRST, f"cat {BACKUPS}/etc-docker-daemon.json")) == OWN
    assert on(FIRST, "ls /var/lib/b200kit/pending") == ""


def test_the_real_daemons_use_cdi(first: Outcome) -> None:
    dirs = on(FIRST, "docker info --format '{{json .CDISpecDirs}}'")
    assert json.loads(dirs) == ["/etc/cdi", "/var/run/cdi"], first.described(FIRST)
    dumped = on(FIRST, "containerd config dump")
    assert "enable_cdi = true" in dumped
    assert 'bin_dir = "/usr/lib/cni"' in dumped
    assert "imports" not in on(FIRST, f"cat {BACKUPS}/etc-containerd-config.toml")
    assert on(FIRST, "systemctl is-active docker containerd").split() == ["active"] * 2


def test_podman_reads_where_the_specification_is(first: Outcome) -> None:
    assert "/var/run/cdi" in on(FIRST, "cat /etc/containers/containers.conf.d/60-b200kit.conf")
    version = first.host(FIRST)["state"]["containers"]["podman"]["version"]
    assert version == on(FIRST, "podman --version").split()[-1]


def test_the_specification_names_every_gpu(first: Outcome) -> None:
    listed = on(FIRST, "nvidia-ctk cdi list").splitlines()
    assert {f"nvidia.com/gpu={name}" for name in [*range(8), "all"]} <= set(listed)
    assert len(listed) == 17
    seen = first.host(FIRST)["state"]["containers"]["cdi"][SPEC]
    assert seen["drivers"] == [DRIVER]
    assert seen["missing"] == []


def test_malformed_json_stops_its_node_with_one_line_and_stays_as_it_was(first: Outcome) -> None:
    message = first.described(SECOND)
    assert first.host(SECOND)["stage"] == "containers", message
    assert f"{DAEMON_JSON}: not JSON: Expecting" in message, message
    assert "nothing was changed" in message, message
    assert "\n" not in first.host(SECOND)["error"]
    assert on(SECOND, f"cat {DAEMON_JSON}") == BROKEN
    assert "nvidia" not in on(SECOND, f"cat {CONFIG_TOML}")
    assert first.code == 1


def test_the_next_run_completes_the_mended_node_and_changes_nothing_on_the_other(
    repaired: tuple[Outcome, int],
) -> None:
    again, commands = repaired
    assert again.code == 0, again.described(SECOND)
    assert json.loads(on(SECOND, f"cat {DAEMON_JSON}"))["features"] == {"cdi": True}
    assert "docker.io" not in json.dumps(again.host(SECOND)["stages"])
    assert [s["name"] for s in again.host(FIRST)["stages"] if s["changes"]] == []
    assert commands == 2


def test_a_stale_specification_is_found(stale: Outcome) -> None:
    assert stale.code == 1
    assert "names libraries of driver 580.95.05" in stale.stdout
    assert "/etc/cdi/nvidia.yaml" in stale.stdout
    checks = [f["check"] for f in stale.host(FIRST)["verdict"]["findings"] if f["status"] == "fail"]
    assert set(checks) == {"containers.cdi"}


def test_another_driver_brings_another_specification(upgraded: Outcome) -> None:
    assert upgraded.code == 0, upgraded.described(FIRST) + upgraded.described(SECOND)
    for name in (FIRST, SECOND):
        seen = upgraded.host(name)["state"]["containers"]["cdi"]
        assert list(seen) == [SPEC]
        assert seen[SPEC]["drivers"] == [LATER]
    kept = on(SECOND, f"cat {BACKUPS}/etc-cdi-nvidia.yaml")
    assert "570.133.20" in kept
    assert lab.status()["hosts"]
