"""Docker as its socket tells it: a server in this process answers as docker 26.1.5 did."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import containers, docker
from tests.subtests import in_subtests

INFO = {
    "ServerVersion": "26.1.5+dfsg1",
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "LiveRestoreEnabled": False,
    "DefaultRuntime": "runc",
    "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
    "RuncCommit": {"ID": "1.1.5+ds1-1+deb12u1", "Expected": "1.1.5+ds1-1+deb12u1"},
}
BY_GPUS = [{"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}]
BY_CDI = [
    {
        "Driver": "cdi",
        "Count": 0,
        "DeviceIDs": ["nvidia.com/gpu=0"],
        "Capabilities": None,
        "Options": None,
    }
]
PLAIN: dict[str, Any] = {
    "Runtime": "runc",
    "DeviceRequests": None,
    "Devices": [],
    "Privileged": False,
}
DEVICE = {"PathOnHost": "/dev/nvidia0", "PathInContainer": "/dev/nvidia0"}


class Daemon:
    """What the stand-in answers, and what it was asked."""

    def __init__(self) -> None:
        self.hosts: dict[str, dict[str, Any]] = {}
        self.info: Any = INFO
        self.gone = ""
        self.asked: list[str] = []
        self.failure = 500

    def answer(self, path: str) -> Any:
        """The document of a path, None where there is none."""
        self.asked.append(path)
        if path == "/info":
            return self.info
        if path == "/containers/json":
            return [{"Id": name, "Names": [f"/{name}"]} for name in self.hosts]
        name = path.split("/")[2]
        return None if name == self.gone else {"Name": f"/{name}", "HostConfig": self.hosts[name]}


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """HTTP on a socket in the file system."""

    daemon_threads = True


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """A docker that is installed and runs."""
    message = Daemon()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            document = message.answer(self.path)
            content = json.dumps(document).encode()
            self.send_response(200 if document is not None else message.failure)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    installed(tmp_path, monkeypatch)
    (tmp_path / "docker.pid").write_text("42")
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "comm").write_text("dockerd\n")
    with Server(str(tmp_path / "docker.sock"), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield message
        server.shutdown()


def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dockerd on PATH that tells its version, and no process of it."""
    program = tmp_path / "dockerd"
    program.write_text("#!/bin/sh\necho 'Docker version 26.1.5+dfsg1, build 411e817'\n")
    program.chmod(0o755)
    monkeypatch.setattr(docker, "PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(docker, "SOCKET", str(tmp_path / "docker.sock"))
    monkeypatch.setattr(docker, "PID", tmp_path / "docker.pid")
    monkeypatch.setattr(docker, "PROC", tmp_path)
    monkeypatch.setattr(docker, "CONFIG", tmp_path / "daemon.json")


def test_a_node_without_docker_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "PATH", "/nowhere")
    assert docker.docker() is None


def test_a_daemon_that_does_not_run_is_not_woken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch)
    monkeypatch.setattr(docker, "get", lambda path, kind: pytest.fail(f"asked for {path}"))
    for pid in (None, "", "42\n"):
        if pid is not None:
            docker.PID.write_text(pid)
        assert docker.docker() == {
            "version": "26.1.5+dfsg1",
            "daemon": None,
            "config": {"cdi": None, "spec_dirs": None},
            "running": {},
        }


def test_a_running_daemon_tells_what_it_runs_with(daemon: Daemon) -> None:
    docker.CONFIG.write_text('{"features": {"cdi": true}, "cdi-spec-dirs": ["/opt/cdi"]}')
    assert docker.docker() == {
        "version": "26.1.5+dfsg1",
        "daemon": {
            "cdi_spec_dirs": ["/etc/cdi", "/var/run/cdi"],
            "cgroup_driver": "systemd",
            "live_restore": False,
            "runc": "1.1.5+ds1-1+deb12u1",
        },
        "config": {"cdi": True, "spec_dirs": ["/opt/cdi"]},
        "running": {},
    }


@pytest.mark.parametrize(
    ("host", "way"),
    [
        ({}, "none"),
        ({"DeviceRequests": BY_GPUS}, "gpus"),
        ({"DeviceRequests": [{"Driver": "nvidia", "Count": 1}]}, "gpus"),
        ({"DeviceRequests": BY_CDI}, "cdi"),
        ({"Runtime": "nvidia"}, "runtime"),
        ({"DeviceRequests": BY_GPUS, "Devices": [DEVICE]}, "devices"),
        ({"DeviceRequests": BY_GPUS, "Privileged": True}, "privileged"),
        ({"Devices": None, "DeviceRequests": None, "Runtime": None}, "none"),
    ],
)
def test_each_way_to_a_gpu_is_told_apart(daemon: Daemon, host: dict[str, Any], way: str) -> None:
    daemon.hosts = {"a": {**PLAIN, **host}, "b": PLAIN}
    read = docker.docker()
    assert read is not None
    assert read["running"] == {"a": way, "b": "none"}


def test_a_container_that_cannot_be_asked_leaves_the_rest_of_the_reading(daemon: Daemon) -> None:
    daemon.hosts, daemon.gone = {"a": PLAIN, "b": PLAIN}, "a"
    read = docker.docker()
    assert read is not None
    assert "docker answers 500 to /containers/a/json" in read["running"]["unmeasured"]
    assert read["daemon"]["cgroup_driver"] == "systemd"
    daemon.failure = 404
    read = docker.docker()
    assert read is not None
    assert read["running"] == {"b": "none"}


def test_a_daemon_that_does_not_answer_is_unmeasured(daemon: Daemon) -> None:
    daemon.info = None
    read = docker.docker()
    assert read is not None
    assert "docker answers 500" in read["daemon"]["unmeasured"]
    assert read["version"] == "26.1.5+dfsg1"


@in_subtests("info", [[], "text", {"CDISpecDirs": "[" * 100_000}, {"RuncCommit": "x"}])
def test_an_answer_of_another_form_is_unmeasured(info: Any, daemon: Daemon) -> None:
    daemon.info, daemon.hosts = info, {"a": {"DeviceRequests": ["gpu"]}}
    read = docker.docker()
    assert read is not None
    assert "unmeasured" in read["running"]


@in_subtests("content", [b"[" * 100_000, b'{"a": 1, "a": 2}', b"[]", b'{"a": 1e999}', b""])
def test_an_answer_that_is_no_object_names_the_daemon_s_path(
    content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Answer:
        status = 200

        def read(self, _: int) -> bytes:
            return content

    monkeypatch.setattr(docker._Local, "request", lambda *_: None)
    monkeypatch.setattr(docker._Local, "getresponse", lambda _: Answer())
    with pytest.raises(ValueError, match="docker's /info: ") as refused:
        docker.get("/info", dict[str, Any])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ['{"a": 1', "[]", '{"a": 1,}', '{"a": 1, "a": 2}', "[" * 100_000])
def test_a_configuration_docker_could_not_read_is_unmeasured(daemon: Daemon, text: str) -> None:
    docker.CONFIG.write_text(text)
    read = docker.docker()
    assert read is not None
    assert "daemon.json: " in read["config"]["unmeasured"]


@in_subtests(
    ("said", "version"),
    [
        ("Docker version 28.2.2, build 45873be", "28.2.2"),
        ("containerd github.com/containerd/containerd/v2 v2.1.3 c787fb98", "2.1.3"),
        ("containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da", "1.7.27"),
        ("containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6", "1.7.24~ds1"),
        ("podman version 5.4.2", "5.4.2"),
    ],
)
def test_versions_are_read_from_what_programs_say(said: str, version: str) -> None:
    assert docker.number(said) == version


def test_the_mode_of_the_nvidia_runtime_is_that_of_its_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    monkeypatch.setattr(containers, "TOOLKIT_CONFIG", config)
    assert containers.runtime_mode() is None
    config.write_text(
        '[nvidia-container-cli]\nmode = "x"\n[nvidia-container-runtime]\n#mode = "y"\n'
    )
    assert containers.runtime_mode() is None
    config.write_text(
        '[nvidia-container-runtime]\nmode = "legacy"\n[nvidia-container-runtime.modes.cdi]\n'
    )
    assert containers.runtime_mode() == "legacy"


SPEC: dict[str, Any] = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "containerEdits": {
        "deviceNodes": [{"path": "/dev/null"}],
        "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook"}],
        "mounts": [
            {"containerPath": "/x", "hostPath": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.126.20"},
            {"containerPath": "/y", "hostPath": "/usr/lib/libnvidia-egl-gbm.so.1.1.2"},
            {"containerPath": "/etc", "hostPath": "/etc"},
        ],
    },
    "devices": [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
        {
            "name": "all",
            "containerEdits": {
                "deviceNodes": [{"path": "/dev/nvidia0"}, {"path": "/in", "hostPath": "/dev/zero"}]
            },
        },
    ],
}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The static and the dynamic directory; the second is not there yet."""
    static, dynamic = tmp_path / "etc", tmp_path / "run"
    static.mkdir()
    monkeypatch.setattr(containers, "DIRECTORIES", (static, dynamic))
    return static, dynamic


def test_a_specification_is_summed_up_with_what_is_missing(folders: tuple[Path, Path]) -> None:
    path = folders[0] / "nvidia.json"
    path.write_text(json.dumps(SPEC))
    assert containers.specs() == {
        str(path): {
            "version": "0.5.0",
            "devices": {"0": ["/dev/nvidia0"], "all": ["/dev/nvidia0", "/dev/zero"]},
            "missing": [
                "/dev/nvidia0",
                "/usr/bin/nvidia-cdi-hook",
                "/usr/lib/libnvidia-egl-gbm.so.1.1.2",
                "/usr/lib/x86_64-linux-gnu/libcuda.so.580.126.20",
            ],
            "drivers": ["580.126.20"],
            "hooks": ["nvidia-cdi-hook"],
        }
    }


def test_what_is_not_for_gpus_or_no_specification_is_left_out(folders: tuple[Path, Path]) -> None:
    (folders[0] / "nic.json").write_text(json.dumps({**SPEC, "kind": "vendor.com/nic"}))
    (folders[0] / "notes.txt").write_text("x")
    assert containers.specs() == {}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"kind": "nvidia.com/gpu", "devices": 1}',
        '{"kind": "nvidia.com/gpu", "devices": [1]}',
        '{"kind": "nvidia.com/gpu", "kind": "nvidia.com/gpu"}',
    ],
    ids=range(6),
)
def test_what_cannot_be_read_is_unmeasured_and_the_rest_is_there(
    folders: tuple[Path, Path], text: str
) -> None:
    folders[1].mkdir()
    broken, sound = folders[0] / "a.json", folders[1] / "nvidia.json"
    broken.write_text(text)
    sound.write_text(json.dumps(SPEC))
    found = containers.specs()
    assert list(found) == [str(broken), str(sound)]
    assert "unmeasured" in found[str(broken)]
    assert "devices" in found[str(sound)]
