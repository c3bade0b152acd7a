"""A real HAProxy is drained, its open requests counted, and opened again as it was."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from b200kit.node.serving.gateway import drain, haproxy
from b200kit.node.serving.gateway.haproxy import HAProxyError
from b200kit.serving.gateway.haproxy_config import BackendServer, GatewayEndpoint
from tests.unit.gateway.proxy import Proxy, free_port, mock, running, until

SLOW = ("1500", "1", "2", "slow")
"""A stream that is open long enough to be seen."""


class Systemd:
    """What systemd says of the gateway's unit."""

    def __init__(self) -> None:
        self.shown = {"ActiveState": "active", "ControlGroup": "/", "MainPID": "1"}
        self.pids = [1, 2]


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch) -> Systemd:
    """The unit as the test has it."""
    found = Systemd()
    monkeypatch.setattr(drain, "unit", lambda: found.shown)
    monkeypatch.setattr(drain, "members", lambda group: found.pids)
    return found


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, systemd: Systemd) -> Iterator[Proxy]:
    """A gateway before two replicas and a fleet of one, where the node program looks for it."""
    del systemd
    with mock(*SLOW) as one, mock(*SLOW) as other:
        nodes = [BackendServer("n2", f"127.0.0.1:{other}")]
        fleet = GatewayEndpoint("fleet", "127.0.0.1", free_port(), "nodes", nodes)
        with running(tmp_path, [one, other], others=[fleet]) as found:
            until(lambda: all(s.status == "UP" for s in haproxy.servers(found.socket)))
            for name in ("servers", "set_state", "keep", "ask", "states", "state", "strike"):
                function = getattr(haproxy, name)
                known = {haproxy.SOCKET: found.socket, haproxy.SAVED: found.kept,
                         haproxy.CONFIG: found.config}  # fmt: skip
                defaults = tuple(known.get(d, d) for d in function.__defaults__)
                monkeypatch.setattr(function, "__defaults__", defaults)
            yield found


@pytest.fixture
def note(tmp_path: Path) -> Path:
    """Where it is kept what was drained."""
    return tmp_path / "drained.json"


def statuses(backend: str = "replicas") -> list[str]:
    """Status of every server."""
    return [server.status.split()[0] for server in haproxy.servers(backend=backend)]


@pytest.mark.process
def test_everything_behind_the_gateway_is_drained_and_comes_back(
    proxy: Proxy, note: Path, systemd: Systemd
) -> None:
    haproxy.set_state("vllm1", "drain")
    assert drain.begin(note) == "3 servers drained"
    assert statuses() == ["DRAIN", "DRAIN"]
    assert statuses("nodes") == ["DRAIN"]
    assert drain.begin(note) == "3 servers drained"
    proxy.reload()
    assert statuses() == ["DRAIN", "DRAIN"]
    drain.end(note)
    # What a person had drained before is that person's.
    until(lambda: statuses() == ["UP", "DRAIN"])
    assert drain.end(note) == "nothing was drained"


@pytest.mark.process
def test_end_without_a_gateway_lets_its_next_start_forget(
    proxy: Proxy, note: Path, systemd: Systemd
) -> None:
    drain.begin(note)
    systemd.shown["ActiveState"] = "inactive"
    drain.end(note)
    assert "vllm" not in proxy.kept.read_text()


@pytest.mark.process
def test_replica_on_its_way_back_does_not_open_a_drained_gateway(proxy: Proxy, note: Path) -> None:
    haproxy.set_state("vllm0", "maint")
    drain.begin(note)
    assert haproxy.set_aside("vllm0", proxy.socket) == "drain"


@pytest.mark.process
def test_open_requests_are_counted_until_the_last_has_ended(proxy: Proxy, note: Path) -> None:
    assert drain.count() == {"open": 0}
    host = proxy.url.removeprefix("http://")
    line = http.client.HTTPConnection(host, timeout=120)
    body = json.dumps({"stream": True})
    fields = {"Authorization": "Bearer node-key", "Content-Type": "application/json"}
    line.request("POST", "/v1/chat/completions", body, fields)
    until(lambda: drain.count() == {"open": 1})
    drain.begin(note)
    assert drain.count() == {"open": 1}
    assert line.getresponse().read().endswith(b"data: [DONE]\n\n")
    line.close()
    until(lambda: drain.count() == {"open": 0})


@pytest.mark.process
def test_worker_from_before_a_reload_counts_for_a_stream(proxy: Proxy, systemd: Systemd) -> None:
    del proxy
    systemd.pids = [1, 2, 3, 4]
    assert drain.count() == {"open": 2}


def test_gateway_that_ended_has_none(systemd: Systemd) -> None:
    for over in ("inactive", "failed"):
        systemd.shown["ActiveState"] = over
        assert drain.count() == {"open": 0}


@pytest.mark.parametrize("active", ["active", "activating", "deactivating", "reloading"])
def test_what_cannot_be_told_is_never_none(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch, active: str
) -> None:
    systemd.shown["ActiveState"] = active

    def silent(command: str) -> str:
        raise HAProxyError("HAProxy's admin socket: No such file or directory")

    monkeypatch.setattr(haproxy, "ask", silent)
    assert drain.count() == {
        "open": None,
        "why": "HAProxy's admin socket: No such file or directory",
    }


def test_statistics_without_the_replicas_tell_nothing() -> None:
    with pytest.raises(HAProxyError):
        drain.open_requests("# pxname,svname,scur\nstats,BACKEND,0\n")


@pytest.mark.process
def test_share_is_a_part_of_the_configured_weight_and_outlives_a_reload(proxy: Proxy) -> None:
    whole = haproxy.servers()[0].weight
    haproxy.set_state("vllm0", "drain")
    assert haproxy.set_share("vllm0", 5, proxy.socket, proxy.kept) == whole * 5 // 100
    proxy.reload()
    assert haproxy.servers(proxy.socket)[0].weight == whole * 5 // 100
    until(lambda: haproxy.servers(proxy.socket)[0].takes_requests)
    assert haproxy.set_share("vllm0", 100, proxy.socket, proxy.kept) == whole
    assert haproxy.servers(proxy.socket)[0].weight == whole


def test_usage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert drain.main(["all"]) == 2
    assert capsys.readouterr().err.startswith("usage: drain begin")


def test_unit_is_asked_of_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess(
        [], 0, "ActiveState=active\nMainPID=7\nControlGroup=/a\n", ""
    )
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: done)
    assert drain.unit() == {"ActiveState": "active", "MainPID": "7", "ControlGroup": "/a"}
