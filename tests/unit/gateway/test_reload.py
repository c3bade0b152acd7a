"""A reload is done when a new worker of a real HAProxy answers, and not before."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from b200kit.node.serving.gateway import haproxy, rotation
from b200kit.node.serving.gateway.haproxy import HAProxyError
from tests.messages import raises_message
from tests.unit.gateway.proxy import Proxy, mock, running

pytestmark = pytest.mark.process


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals that reach the master; the first is lost, as one right after a reload may be."""
    sent: list[int] = []
    kill = os.kill

    def lose_the_first(pid: int, number: int) -> None:
        sent.append(number)
        if len(sent) > 1:
            kill(pid, number)

    monkeypatch.setattr(os, "kill", lose_the_first)
    return sent


def worker(proxy: Proxy) -> str:
    """The answering worker's line of `show info`."""
    lines = haproxy.ask("show info", proxy.socket).splitlines()
    return next(line for line in lines if line.startswith("Pid: "))


def test_lost_signal_is_sent_again(tmp_path: Path, signals: list[int]) -> None:
    with mock() as port, running(tmp_path, [port]) as proxy:
        before = worker(proxy)
        rotation.reload(
            proxy.process.pid, proxy.socket, proxy.kept, proxy.config, signal_again_s=0.2
        )
        assert worker(proxy) != before
        assert len(signals) >= 2


def test_configuration_that_cannot_start_is_an_error_and_the_old_one_goes_on(
    tmp_path: Path,
) -> None:
    """It passes HAProxy's own check: only a start shows that somebody else has the port."""
    with mock() as port, running(tmp_path, [port]) as proxy, socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        own = proxy.url.rpartition(":")[2]
        text = proxy.config.read_text()
        proxy.config.write_text(text.replace(f":{own}", f":{other.getsockname()[1]}"))
        before = worker(proxy)
        with raises_message(HAProxyError):
            rotation.reload(
                proxy.process.pid, proxy.socket, proxy.kept, proxy.config,
                done_within_s=3, signal_again_s=1,
            )  # fmt: skip
        assert worker(proxy) == before


def test_gateway_that_ended_is_an_error(tmp_path: Path) -> None:
    with mock() as port, running(tmp_path, [port]) as proxy:
        pid = proxy.process.pid
    assert rotation.main(["reload", str(pid)]) == 1
