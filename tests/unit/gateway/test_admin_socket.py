"""Replicas in and out of rotation through a real HAProxy's admin socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from b200kit.node.serving.gateway import haproxy, rotation
from b200kit.node.serving.gateway.haproxy import HAProxyError
from tests.messages import assert_message, raises_message
from tests.unit.gateway.proxy import Proxy, mock, running, until


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """A gateway before two servers that are up."""
    with mock() as one, mock() as other, running(tmp_path, [one, other]) as found:
        until(lambda: all(s.status == "UP" for s in haproxy.servers(found.socket)))
        yield found


def statuses(proxy: Proxy) -> list[str]:
    """The servers' statuses by their first word."""
    return [server.status.split()[0] for server in haproxy.servers(proxy.socket)]


@pytest.fixture
def here(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """The same where the node program looks for it."""
    for function in ("servers", "set_state", "keep", "set_aside", "ask", "states", "state"):
        defaults = getattr(haproxy, function).__defaults__
        known = {haproxy.SOCKET: proxy.socket, haproxy.SAVED: proxy.kept,
                 haproxy.CONFIG: proxy.config}  # fmt: skip
        monkeypatch.setattr(
            getattr(haproxy, function), "__defaults__", tuple(known.get(d, d) for d in defaults)
        )
    monkeypatch.setattr(haproxy, "SOCKET", proxy.socket)
    return proxy


@pytest.mark.process
def test_servers_are_told_with_status_sessions_and_weight(proxy: Proxy) -> None:
    assert haproxy.servers(proxy.socket) == [
        haproxy.GatewayServer("vllm0", "UP", 0, 100),
        haproxy.GatewayServer("vllm1", "UP", 0, 100),
    ]


@pytest.mark.process
@pytest.mark.parametrize("state", ["drain", "maint"])
def test_server_set_aside_stays_so_over_a_reload_and_comes_back(proxy: Proxy, state: str) -> None:
    haproxy.set_state("vllm0", state, proxy.socket, proxy.kept)
    until(lambda: statuses(proxy) == [state.upper(), "UP"])
    assert haproxy.set_aside("vllm0", proxy.socket) == state
    proxy.reload()
    until(lambda: statuses(proxy) == [state.upper(), "UP"])
    haproxy.set_state("vllm0", "ready", proxy.socket, proxy.kept)
    assert haproxy.set_aside("vllm0", proxy.socket) is None
    proxy.reload()
    until(lambda: statuses(proxy) == ["UP", "UP"])


@pytest.mark.process
def test_port_of_the_new_configuration_wins_over_the_kept_one(proxy: Proxy) -> None:
    """HAProxy itself would go on with the old one."""
    haproxy.set_state("vllm0", "drain", proxy.socket, proxy.kept)
    row = haproxy.state("vllm0", proxy.socket)
    with mock() as port:
        text = proxy.config.read_text()
        proxy.config.write_text(text.replace(f":{row['srv_port']} ", f":{port} "))
        proxy.reload()
        assert haproxy.state("vllm0", proxy.socket)["srv_port"] == str(port)
        until(lambda: statuses(proxy) == ["DRAIN", "UP"])


@pytest.mark.process
def test_server_that_moved_is_pointed_at(proxy: Proxy) -> None:
    haproxy.point("vllm1", "127.0.0.1", 9, proxy.socket)
    assert haproxy.state("vllm1", proxy.socket)["srv_port"] == "9"
    until(lambda: statuses(proxy) == ["UP", "DOWN"])


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "state"),
    [("vllm7", "drain"), ("vllm0", "off")],
)
def test_refusal_is_one_line(proxy: Proxy, name: str, state: str) -> None:
    with raises_message(HAProxyError):
        haproxy.set_state(name, state, proxy.socket, proxy.kept)


def test_gateway_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with raises_message(HAProxyError):
        haproxy.servers(tmp_path / "none")


@pytest.mark.process
def test_admin_socket_is_for_its_owner_alone(proxy: Proxy) -> None:
    assert proxy.socket.stat().st_mode & 0o777 == 0o600


@pytest.mark.process
def test_replica_leaves_at_its_stop_and_comes_back_warm(here: Proxy) -> None:
    assert rotation.main(["out", "0"]) == 0
    assert statuses(here) == ["MAINT", "UP"]
    assert rotation.main(["out", "0"]) == 0
    assert rotation.main(["back", "0"]) == 0
    assert statuses(here) == ["UP", "UP"]


@pytest.mark.process
def test_warm_replica_is_in_rotation_again_after_the_gateway_was_gone(proxy: Proxy) -> None:
    """It could take nobody back while no HAProxy ran; what a person drained is another thing."""
    haproxy.set_state("vllm0", "maint", proxy.socket, proxy.kept)
    haproxy.set_state("vllm1", "maint", proxy.socket, proxy.kept)
    haproxy.forget(lambda name: name == "vllm0", proxy.kept)
    rows = haproxy.rows_of(proxy.kept.read_text())
    assert [row["srv_name"] for row in rows] == ["vllm1"]
    haproxy.set_state("vllm1", "drain", proxy.socket, proxy.kept)
    haproxy.forget(lambda name: True, proxy.kept)
    assert "vllm1" in proxy.kept.read_text()
    haproxy.set_state("vllm1", "ready", proxy.socket, proxy.kept)
    haproxy.set_state("vllm0", "ready", proxy.socket, proxy.kept)
    haproxy.forget(lambda name: True, proxy.kept)
    assert proxy.kept.read_text() == "1\n"
    haproxy.forget(lambda name: True, proxy.kept.with_name("none"))


@pytest.mark.process
def test_replica_that_somebody_drained_stays_drained(here: Proxy) -> None:
    haproxy.set_state("vllm0", "drain")
    assert rotation.main(["out", "0"]) == rotation.main(["back", "0"]) == 0
    assert statuses(here) == ["DRAIN", "UP"]


@pytest.mark.process
def test_person_drains_and_brings_back_by_name(
    here: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rotation.main(["drain", "vllm1"]) == 0
    assert rotation.main(["list"]) == 0
    assert capsys.readouterr().out.split() == [
        "vllm0", "UP", "0", "requests", "vllm1", "DRAIN", "0", "requests",
    ]  # fmt: skip
    assert rotation.main(["ready", "vllm1"]) == 0
    assert statuses(here) == ["UP", "UP"]
    assert rotation.main(["drain", "vllm9"]) == 1
    assert "No such server" in capsys.readouterr().err


def test_without_a_gateway_there_is_no_rotation_to_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(haproxy, "SOCKET", tmp_path / "none")
    assert rotation.main(["out", "0"]) == 0


@pytest.mark.parametrize("args", [[], ["out"], ["out", "x"], ["away", "0"]])
def test_wrong_words_are_told(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert rotation.main(args) == 2
    assert capsys.readouterr().err.startswith("usage: rotation list")


@pytest.mark.process
def test_replica_the_gateway_does_not_know_is_one_line(
    here: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rotation.main(["out", "5"]) == 1
    assert_message(capsys.readouterr().err)
