"""The agent's effects: its commands to systemd and the gateway, both simulated here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from b200kit.node.agent import effects, hang_evidence
from b200kit.node.agent.effects import Edges, EffectFailed
from b200kit.node.facts import processes
from b200kit.node.lib import journal, program
from b200kit.node.serving.gateway import haproxy
from b200kit.node.state.serving import ServedReplica
from b200kit.node.state.watchdog import ReplicaUnit
from tests.messages import assert_message

SYSTEMCTL = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
show) printf '%s\\n' {shown};;
restart) {restart};;
esac
"""
SHOWN = "ActiveState=active InvocationID=abc ControlGroup=/system.slice/x MainPID=7 NRestarts=0"
REPLICA = ServedReplica(0, "http://127.0.0.1:1", "vllm@0.service", ())
Systemctl = Callable[..., Path]


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemctl:
    """Puts a systemctl in front of the path that writes down what it is asked.

    And a systemd-run that runs what it is given right here.
    """

    def make(shown: str = SHOWN, restart: str = "true") -> Path:
        log, program = tmp_path / "asked", tmp_path / "bin" / "systemctl"
        program.parent.mkdir(exist_ok=True)
        program.write_text(SYSTEMCTL.format(log=log, shown=shown, restart=restart))
        program.chmod(0o755)
        apart = program.with_name("systemd-run")
        apart.write_text('#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n')
        apart.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return log

    return make


def test_a_unit_is_seen_with_its_invocation(systemctl: Systemctl) -> None:
    systemctl()
    assert asyncio.run(Edges().unit("vllm@0.service")) == ReplicaUnit("active", "abc")


def test_a_unit_is_seen_with_what_ended_it(systemctl: Systemctl) -> None:
    systemctl(shown="ActiveState=failed InvocationID=abc Result=start-limit-hit ExecMainStatus=1")
    expected = ReplicaUnit("failed", "abc", "start-limit-hit", 1)
    assert asyncio.run(Edges().unit("vllm@0.service")) == expected


def test_a_unit_that_cannot_be_read_is_not_taken_for_anything(systemctl: Systemctl) -> None:
    systemctl(shown="; exit 1")
    with pytest.raises(EffectFailed, match=r"vllm@0.service: .*systemctl"):
        asyncio.run(Edges().unit("vllm@0.service"))


def test_a_restart_forgets_earlier_failures_first(systemctl: Systemctl) -> None:
    log = systemctl()
    assert asyncio.run(Edges().restart("vllm@0.service", 10)) is None
    assert log.read_text().splitlines() == [
        "reset-failed vllm@0.service",
        "restart vllm@0.service",
    ]


def test_a_restart_that_fails_says_why(systemctl: Systemctl) -> None:
    systemctl(restart="echo Job for vllm@0.service failed. >&2; exit 1")
    said = asyncio.run(Edges().restart("vllm@0.service", 10))
    assert_message(said)


def test_a_restart_that_never_ends_is_left_behind(systemctl: Systemctl) -> None:
    systemctl(restart="exec sleep 600")
    said = asyncio.run(Edges().restart("vllm@0.service", 0.2))
    assert_message(said)


@pytest.mark.parametrize(("reset", "fails"), [("true", False), ("false", True)])
def test_fabric_manager_is_renewed_between_stop_and_start_of_the_replicas(
    systemctl: Systemctl, monkeypatch: pytest.MonkeyPatch, reset: str, fails: bool
) -> None:
    log = systemctl()

    def argv(*words: str) -> list[str]:
        return ["sh", "-c", f"echo {' '.join(words)} >> {log}; {reset}"]

    monkeypatch.setattr(program, "argv", argv)
    units = ["vllm@0.service", "vllm@1.service"]
    assert bool(asyncio.run(Edges().renew_manager(units, "mend-7"))) is fails
    assert log.read_text().splitlines() == [
        f"stop {' '.join(units)}",
        "gpu-daemons reset --act mend-7 --deadline 600",
        f"start --no-block {' '.join(units)}",
    ]


def test_an_abort_signals_the_whole_unit_and_keeps_what_it_says(
    systemctl: Systemctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = systemctl()
    monkeypatch.setattr(effects, "members", lambda group: [])
    monkeypatch.setattr(journal, "lines", lambda invocation, last: ["Fatal Python error: Aborted"])
    asyncio.run(Edges().abort(REPLICA, str(tmp_path)))
    assert "kill --signal=SIGABRT vllm@0.service" in log.read_text().splitlines()
    assert (tmp_path / "after-abort.txt").read_text() == "Fatal Python error: Aborted\n"


def test_evidence_is_collected_by_a_process_of_its_own(
    systemctl: Systemctl, tmp_path: Path
) -> None:
    systemctl()
    edges = Edges(directory=tmp_path / "agent")
    into = Path(asyncio.run(edges.collect(REPLICA)))
    assert into.parent == tmp_path / "agent"
    assert into.name.endswith("Z-vllm0")
    names = {path.name for path in into.iterdir()}
    assert names == {"threads.txt", "metrics.txt", "journal.txt", "unit.txt", "gpus.txt"}
    assert "not available" in (into / "metrics.txt").read_text()
    assert (into.stat().st_mode & 0o777) == 0o700


def test_the_gateway_is_told_drain_and_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    text: list[tuple[str, str]] = []
    monkeypatch.setattr(haproxy, "set_state", lambda name, state: text.append((name, state)))
    assert asyncio.run(Edges().take_out_of_rotation("vllm1")) is None
    assert asyncio.run(Edges().put_back("vllm1")) is None
    assert text == [("vllm1", "drain"), ("vllm1", "ready")]


def test_a_gateway_that_is_not_there_is_said_and_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str, state: str) -> None:
        raise haproxy.HAProxyError("HAProxy's admin socket: No such file or directory")

    monkeypatch.setattr(haproxy, "set_state", absent)
    said = asyncio.run(Edges().take_out_of_rotation("vllm1"))
    assert_message(said)


def test_the_evidence_of_no_process_is_no_error() -> None:
    assert list(hang_evidence.threads([])) == []
    assert processes.members("") == []
