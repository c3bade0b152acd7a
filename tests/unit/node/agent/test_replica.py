"""A watched replica: the stand-in engine over a real socket, the node's edges in memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.agent import effects, loop
from b200kit.node.agent import hang_evidence as evidence
from b200kit.node.agent.effects import Edges, EffectFailed
from b200kit.node.agent.memory import AgentMemory
from b200kit.node.agent.probe import Prober, ProbeResult
from b200kit.node.agent.replica import Watched
from b200kit.node.client.chat import Endpoint
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.state.event import Event
from b200kit.node.state.serving import ServedReplica, WatchdogPlan
from b200kit.node.state.verdict import Finding, Status
from b200kit.node.state.watch import HealthCheck, NodeFault
from b200kit.node.state.watchdog import ProbeOutcome, ReplicaState, ReplicaUnit, WatchdogRules
from tests.lab.standin.engine import Engine
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.node.client.server_thread import MODEL, fast, running

RULES = WatchdogRules(
    interval_s=0.01, deadline_s=0.2, strikes=2, stall_s=60, ejections=3, window_s=3600
)
PATIENT = replace(RULES, deadline_s=300)
DEADLOCK = ProbeResult(ProbeOutcome.NO_ANSWER, "stalled: no data for 20 s", 20.0)
ALIVE = ProbeResult(ProbeOutcome.ANSWERED, "", 0.01)
FIRST = ReplicaUnit("active", "first")


def probe_of(url: str, key: str | None = None, rules: WatchdogRules = PATIENT) -> ProbeResult:
    """One probe of a server."""
    return asyncio.run(Prober(Endpoint(url, key), MODEL, WatchdogPlan(rules)).probe())


def test_one_token_is_an_answer() -> None:
    with running() as url:
        assert probe_of(url).outcome is ProbeOutcome.ANSWERED


def test_a_deadlocked_engine_is_found_though_its_health_is_200(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Engine, "__init__", hung(Engine.__init__))
    with running() as url:
        assert asyncio.run(Endpoint(url).get("/health")).status == 200
        assert probe_of(url, rules=RULES).outcome is ProbeOutcome.NO_ANSWER


def hung(init: Callable[..., None]) -> Callable[..., None]:
    """An engine that is hung from its first request on."""

    def made(self: Engine, *arguments: object, **named: object) -> None:
        init(self, *arguments, **named)
        self.hang()

    return made


def test_a_server_that_is_gone_is_silent() -> None:
    with running() as url:
        pass
    assert probe_of(url).outcome is ProbeOutcome.NO_ANSWER


def test_a_wrong_key_says_nothing_about_the_engine() -> None:
    with running(key="right") as url:
        found = probe_of(url, "wrong")
    assert (found.outcome, found.detail) == (ProbeOutcome.REFUSED, "HTTP 401: Unauthorized")


def test_an_engine_that_makes_tokens_for_others_is_busy_and_not_hung() -> None:
    slow = replace(fast(), ttft=0.0, itl=0.02)

    async def beside_a_long_stream(url: str) -> ProbeResult:
        prober = Prober(Endpoint(url), MODEL, WatchdogPlan(RULES))
        stream = asyncio.ensure_future(long_stream(url))
        await has_begun(url)
        found = await prober.probe()
        stream.cancel()
        return found

    with running(slow, max_num_seqs=1) as url:
        found = asyncio.run(beside_a_long_stream(url))
    assert found.outcome is ProbeOutcome.BUSY
    assert "tokens are made for others" in found.detail


async def long_stream(url: str) -> None:
    """A request that takes the only place there is."""
    from b200kit.node.client.chat import ChatRequest, chat

    await chat(Endpoint(url), ChatRequest(MODEL, "go on", 3000))


async def has_begun(url: str) -> None:
    """Return when the engine has made a token."""
    from b200kit.node.client import engine_metrics

    while True:
        sample = await engine_metrics.scrape(Endpoint(url))
        if isinstance(sample, dict) and sample["vllm:generation_tokens_total"] > 0:
            return
        await asyncio.sleep(0.01)


@in_subtests(
    ("samples", "seconds"),
    [
        ([(5, 1), (5, 1), (5, 1)], 20.0),
        ([(5, 1), (6, 1), (6, 1)], 10.0),
        ([(5, 0), (5, 0), (5, 0)], 0.0),
        ([(5, 1), (5, 0), (5, 1)], 0.0),
        ([(5, 1), None, (5, 1)], 0.0),
    ],
)
def test_only_waiting_requests_without_a_token_count_as_standing_still(
    samples: list[tuple[int, int] | None], seconds: float
) -> None:
    now = iter(range(0, 1000, 10))
    at = [0.0]
    prober = Prober(Endpoint("http://x"), MODEL, WatchdogPlan(RULES), clock=lambda: at[0])
    still = 0.0
    for sample in samples:
        at[0] = float(next(now))
        named = {"vllm:generation_tokens_total": 0.0, "vllm:num_requests_waiting": 0.0}
        if sample:
            named = dict(zip(named, map(float, sample), strict=True))
        still = prober._still_for(named if sample else "no answer")
    assert still == seconds


@dataclass
class Node:
    """A node in memory: what was done to it, in order, and what it answers."""

    seen: ReplicaUnit = FIRST
    found: ProbeResult = ALIVE
    acts: list[str] = field(default_factory=list)
    gateway: str | None = None
    rolling: bool = False
    is_mark: bool = False
    warm: str | None = None
    broken: tuple[str, ...] = ()
    fault: str = ""
    idle: bool = True
    restarts: int = 0
    drained: bool = False
    sent: list[Event] = field(default_factory=list)

    @property
    def told(self) -> list[tuple[str, str | None]]:
        """Each event of the replica, and what it asks for."""
        assert {(e.replicas, e.subject) for e in self.sent} <= {((0,), "vllm@0.service")}
        return [(e.kind, e.remediation.action if e.remediation else None) for e in self.sent]

    async def probe(self) -> ProbeResult:
        return self.found

    async def is_idle(self) -> bool:
        return self.idle

    async def unit(self, unit: str) -> ReplicaUnit:
        return self.seen

    async def take_out_of_rotation(self, server: str) -> str | None:
        self.acts.append(f"out_of_rotation {server}")
        return self.gateway

    async def put_back(self, server: str) -> str | None:
        self.acts.append(f"back {server}")
        return self.gateway

    async def collect(self, replica: ServedReplica) -> str:
        self.acts.append("evidence")
        if "evidence" in self.broken:
            raise OSError("No space left on device")
        return "/evidence/here"

    async def abort(self, replica: ServedReplica, evidence: str) -> None:
        self.acts.append("abort")

    async def restart(self, unit: str, within_s: float) -> str | None:
        self.acts.append(f"restart {unit}")
        self.restarts += 1
        self.seen = ReplicaUnit("failed" if self.warm else "active", f"restarted {self.restarts}")
        return self.warm

    def is_drained(self) -> bool:
        return self.drained

    def is_marked(self) -> bool:
        return self.is_mark

    def mark(self, why: str, evidence: str) -> None:
        self.acts.append(f"mark: {why}")
        self.is_mark = True

    @contextlib.contextmanager
    def no_rolling_restart(self) -> Iterator[bool]:
        yield not self.rolling


def watched(node: Node, directory: Path, boot_id: str = "boot-a") -> Watched:
    """Replica 0 of it, as an agent that has just started has it."""
    replica = ServedReplica(0, "http://127.0.0.1:1", "vllm@0.service", ())
    memory = AgentMemory(
        "n01", [replica], directory / "serving.json", path=directory / "agent.json",
        directory=directory, clock=lambda: Moment(boot_id, 100.0),
    )  # fmt: skip
    memory.recall()
    tell = memory.tell

    def told(event: Event) -> None:
        tell(event)
        node.sent.append(event)

    memory.tell = told  # type: ignore[method-assign]
    instead: Any = node
    one = Watched(replica, RULES, instead, instead, memory, ("nvlink",), 1.0)
    one.clock = memory.clock
    return one


def found(node: Node) -> HealthCheck:
    """What the last look found of it."""
    finding = Finding(node.fault, Status.FAIL, check="nvlink.links")
    faults = (NodeFault(finding, (0,), "then", confirmed=True),) if node.fault else ()
    return HealthCheck("then", 1.0, True, faults)


def ticks(one: Watched, count: int) -> None:
    """So many probes, and those that must not wait."""

    async def look() -> None:
        for _ in range(count):
            assert isinstance(one.acts, Node)
            one.memory.look = found(one.acts)
            while await one.tick():
                pass

    asyncio.run(look())


REPAIRED = ["out_of_rotation vllm0", "evidence", "abort", "restart vllm@0.service"]


def test_ejected_first_then_looked_at_then_restarted_then_back(tmp_path: Path) -> None:
    node = Node(found=DEADLOCK)
    one = watched(node, tmp_path)
    ticks(one, 1)
    assert node.acts == []
    answers_after_a_restart(node)
    ticks(one, 1)
    assert node.acts == [*REPAIRED, "back vllm0"]
    assert (one.standing.out, len(one.standing.ejections)) == (False, 1)
    assert node.told == [("replica.out", "restart-service"), ("replica.back", None)]


@pytest.mark.parametrize("outcome", [ProbeOutcome.SLOW, ProbeOutcome.NO_ANSWER])
def test_only_one_that_is_slow_is_drained_before_its_restart(
    tmp_path: Path, outcome: ProbeOutcome
) -> None:
    node = Node(found=ProbeResult(outcome, "why"))
    asked = 0

    async def is_idle() -> bool:
        nonlocal asked
        node.acts.append("idle?")
        asked += 1
        return asked > 1

    node.is_idle = is_idle  # type: ignore[method-assign]
    answers_after_a_restart(node)
    ticks(watched(node, tmp_path), 2)
    waited = ["idle?"] * (2 if outcome is ProbeOutcome.SLOW else 0)
    assert node.acts == [*REPAIRED[:2], *waited, *REPAIRED[2:], "back vllm0"]


def answers_after_a_restart(node: Node) -> None:
    """Let the replica answer as soon as it was restarted."""
    restart = node.restart

    async def repaired(unit: str, within_s: float) -> str | None:
        node.found = ALIVE
        return await restart(unit, within_s)

    node.restart = repaired  # type: ignore[method-assign]


def test_a_node_without_a_gateway_is_watched_all_the_same(tmp_path: Path) -> None:
    node = Node(found=DEADLOCK, gateway="HAProxy's admin socket: No such file or directory")
    answers_after_a_restart(node)
    one = watched(node, tmp_path)
    ticks(one, 2)
    assert node.acts == [*REPAIRED, "back vllm0"]
    assert not one.standing.out


def test_a_gateway_that_put_it_aside_must_put_it_back(tmp_path: Path) -> None:
    node = Node(found=DEADLOCK)
    answers_after_a_restart(node)
    restart = node.restart

    async def gateway_goes(unit: str, within_s: float) -> str | None:
        node.gateway = "HAProxy's admin socket: Connection refused"
        return await restart(unit, within_s)

    node.restart = gateway_goes  # type: ignore[method-assign]
    one = watched(node, tmp_path)
    ticks(one, 2)
    assert one.standing.out
    node.gateway = None
    ticks(one, 1)
    assert not one.standing.out


def test_after_too_many_ejections_it_is_left_out_and_the_node_is_marked(tmp_path: Path) -> None:
    node = Node(found=DEADLOCK)
    one = watched(node, tmp_path)
    ticks(one, 8)
    assert node.restarts == 2
    assert_message(*[act for act in node.acts if act.startswith("mark")])
    assert node.acts[-1] == "out_of_rotation vllm0"
    assert "back vllm0" not in node.acts
    assert node.told[-1] == ("replica.out", "reset-gpu")


def test_ejections_are_counted_by_the_time_since_the_boot(tmp_path: Path) -> None:
    one = watched(Node(found=DEADLOCK), tmp_path)
    ticks(one, 2)
    assert set(one.standing.ejections) == {100.0}
    assert written(tmp_path)["ejections"] == [100.0]


def written(directory: Path) -> dict[str, Any]:
    """What is on the disk of the replica."""
    known: dict[str, Any] = json.loads((directory / "agent.json").read_text())["watchdog"]["0"]
    return known


def test_ejections_of_an_earlier_boot_are_not_counted(tmp_path: Path) -> None:
    one = watched(Node(found=DEADLOCK), tmp_path)
    ticks(one, 2)
    assert len(one.standing.ejections) == 1
    later = watched(Node(found=DEADLOCK), tmp_path)
    assert later.standing.ejections == one.standing.ejections
    rebooted = watched(Node(found=DEADLOCK), tmp_path, "boot-b")
    assert not rebooted.standing.ejections
    assert rebooted.standing.out


def test_a_removed_mark_mends_it_once_more(tmp_path: Path) -> None:
    node = Node(found=DEADLOCK)
    ticks(watched(node, tmp_path), 8)
    node.acts.clear()
    node.is_mark = False
    answers_after_a_restart(node)
    again = watched(node, tmp_path)
    ticks(again, 1)
    assert node.acts == [*REPAIRED, "back vllm0"]
    assert again.standing.ejections == ()


@pytest.mark.parametrize("act", ["take_out_of_rotation", "collect", "abort", "restart", "mark"])
def test_a_watchdog_that_is_killed_anywhere_goes_on_from_there(tmp_path: Path, act: str) -> None:
    node = Node(found=DEADLOCK)
    whole = getattr(node, act)

    def killed(*arguments: object) -> object:
        raise KeyboardInterrupt

    setattr(node, act, killed)
    one = watched(node, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        ticks(one, 20)
    setattr(node, act, whole)
    if act != "mark":
        answers_after_a_restart(node)
    after = watched(node, tmp_path)
    ticks(after, 3)
    if act == "mark":
        assert node.is_mark
        assert "back vllm0" not in node.acts
    else:
        assert node.acts[-2:] == ["restart vllm@0.service", "back vllm0"]
        assert len(after.standing.ejections) == 1


def test_a_restart_that_does_not_get_warm_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    node = Node(found=DEADLOCK, warm="systemctl exited 1: Job for vllm@0.service failed")
    one = watched(node, tmp_path)
    ticks(one, 4)
    assert node.restarts == 2
    assert one.standing.given_up
    assert node.is_mark


def test_a_replica_that_systemd_gave_up_is_started_again_and_comes_back(tmp_path: Path) -> None:
    node = Node(seen=ReplicaUnit("failed", "first", "start-limit-hit", 1))
    one = watched(node, tmp_path)
    ticks(one, 1)
    assert node.acts == [*(act for act in REPAIRED if act != "abort"), "back vllm0"]
    assert (one.standing.out, len(one.standing.ejections)) == (False, 1)


def test_a_replica_that_somebody_stopped_stays_stopped_and_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(seen=ReplicaUnit("inactive", "", "success"))
    one = watched(node, tmp_path)
    ticks(one, 3)
    assert node.acts == []
    assert_message(capsys.readouterr().err)
    assert "somebody stopped it" in written(tmp_path)["last"]["detail"]


def test_a_replica_that_was_stopped_during_its_probe_is_not_blamed(tmp_path: Path) -> None:
    node = Node()

    async def stopped_meanwhile() -> ProbeResult:
        node.seen = ReplicaUnit("inactive", "")
        return DEADLOCK

    node.probe = stopped_meanwhile  # type: ignore[method-assign]
    one = watched(node, tmp_path)
    ticks(one, 5)
    assert (node.acts, one.standing.strikes) == ([], 0)


def test_a_rolling_restart_is_not_interfered_with_and_nothing_is_forgotten(tmp_path: Path) -> None:
    node = Node(found=DEADLOCK, rolling=True)
    one = watched(node, tmp_path)
    ticks(one, 6)
    assert node.acts == []
    answers_after_a_restart(node)
    node.rolling = False
    ticks(one, 1)
    assert node.acts == [*REPAIRED, "back vllm0"]


@pytest.mark.parametrize("full", [False, True])
def test_neither_missing_evidence_nor_a_full_disk_stops_an_ejection(
    tmp_path: Path, full: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(found=DEADLOCK, broken=("evidence",))
    answers_after_a_restart(node)
    directory = tmp_path / "file" if full else tmp_path
    if full:
        directory.write_text("no folder can be made here")
    one = watched(node, directory)
    ticks(one, 2)
    assert node.acts == [
        "out_of_rotation vllm0",
        "evidence",
        "restart vllm@0.service",
        "back vllm0",
    ]
    assert_message(capsys.readouterr().err)


def test_what_is_kept_of_a_replica_says_how_it_is(tmp_path: Path) -> None:
    ticks(watched(Node(), tmp_path), 1)
    document = written(tmp_path)
    assert (document["replica"], document["unit"], document["out"]) == (0, "vllm@0.service", False)
    assert document["last"]["what"] == "answered"
    assert document["last"]["took_ms"] == 10.0


def test_one_replica_that_cannot_be_looked_at_stops_no_other(tmp_path: Path) -> None:
    broken, well = Node(), Node()

    async def unseen(unit: str) -> ReplicaUnit:
        raise EffectFailed("vllm@0.service: systemctl took more than 10 s")

    broken.unit = unseen  # type: ignore[method-assign]
    looks = 0

    async def counted() -> ProbeResult:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise RuntimeError("enough")
        return ALIVE

    well.probe = counted  # type: ignore[method-assign]

    async def both() -> None:
        tasks = [watched(broken, tmp_path), watched(well, tmp_path / "other")]
        await asyncio.gather(*(loop.look_after(one) for one in tasks))

    with pytest.raises(RuntimeError):
        asyncio.run(both())
    assert looks == 3


def test_systemd_is_told_by_the_socket_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        assert loop.notify("READY=1")
        assert listener.recv(64) == b"READY=1"
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    assert loop.watchdog_every_s() == 20.0
    monkeypatch.delenv("NOTIFY_SOCKET")
    monkeypatch.delenv("WATCHDOG_USEC")
    assert not loop.notify("READY=1")
    assert loop.watchdog_every_s() is None


def test_the_first_mark_stands(tmp_path: Path) -> None:
    path = tmp_path / "watchdog-mark.json"
    effects.mark("it hung", "/e", path)
    effects.mark("else", "/f", path)
    document = json.loads(path.read_text())
    assert [document[key] for key in ("who", "why", "evidence", "action")] == [
        *("b200-agent", "it hung", "/e", "reset-gpu")
    ]
    assert effects.is_there(path)


def test_the_lock_is_shared_by_menders_and_held_against_rolls(tmp_path: Path) -> None:
    from b200kit.node.serving.gateway.rolling_restart import hold
    from b200kit.node.serving.gateway.rolling_steps import Halt

    lock = tmp_path / "rolling-restart.lock"
    edges = Edges(lock=lock)
    with edges.no_rolling_restart() as free, edges.no_rolling_restart() as also:
        assert (free, also) == (True, True)
        with pytest.raises(Halt):
            hold(lock)
    held = hold(lock)
    with edges.no_rolling_restart() as free:
        assert not free
    os.close(held)
    with edges.no_rolling_restart() as free:
        assert free


def test_a_lock_that_cannot_be_made_keeps_nobody_from_mending(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with Edges(lock=tmp_path / "file" / "rolling-restart.lock").no_rolling_restart() as free:
        assert free


def test_every_thread_of_a_process_is_told_by_what_the_kernel_knows() -> None:
    lines = list(evidence.threads([os.getpid()]))
    assert lines[0].startswith(f"== {os.getpid()} ")
    text = next(line for line in lines if line.startswith(f"-- {os.getpid()} "))
    assert "State:" in text
    assert any(line.startswith("   wchan:") for line in lines)


def test_a_part_of_the_evidence_that_cannot_be_had_says_why(tmp_path: Path) -> None:
    def missing() -> str:
        raise OSError("No such file or directory: 'nvidia-smi'")

    evidence.write(tmp_path, "gpus.txt", missing)
    assert_message((tmp_path / "gpus.txt").read_text())


def test_only_the_newest_folders_of_evidence_are_kept(tmp_path: Path) -> None:
    for second in range(5):
        (tmp_path / f"20261121T09400{second}Z-vllm0").mkdir()
    evidence.forget(tmp_path, keep=2)
    assert sorted(path.name[13:15] for path in tmp_path.iterdir()) == ["03", "04"]


def test_what_is_known_of_replicas_that_are_gone_is_forgotten(tmp_path: Path) -> None:
    one = watched(Node(), tmp_path)
    for number in range(3):
        one.memory.keep(number, ReplicaState(out=True))
    assert {*watched(Node(), tmp_path).memory.standings} == {0}


def test_of_a_node_that_is_drained_nothing_is_touched_and_nothing_put_back(tmp_path: Path) -> None:
    node = Node(found=DEADLOCK, drained=True)
    ticks(watched(node, tmp_path), 5)
    assert node.acts == []
    # Nor where the drain began while it was being put back.
    node.drained = False
    answers_after_a_restart(node)
    put_back = node.put_back

    async def drained_meanwhile(server: str) -> str | None:
        node.drained = True
        return await put_back(server)

    node.put_back = drained_meanwhile  # type: ignore[method-assign]
    one = watched(node, tmp_path)
    ticks(one, 3)
    assert node.acts[-2:] == ["back vllm0", "out_of_rotation vllm0"]
    assert one.standing.out


def test_a_fault_of_the_node_holds_it_out_and_restarts_nothing(tmp_path: Path) -> None:
    node = Node(found=DEADLOCK, fault="GPU 2 has 17 of 18 NVLinks up")
    one = watched(node, tmp_path)
    ticks(one, 3)
    # Again and again: whatever puts it into rotation meanwhile does not know of the fault.
    assert node.acts == ["out_of_rotation vllm0"] * 3
    assert (one.standing.out, one.standing.ejections) == (True, ())


def test_held_out_is_back_once_the_fault_is_over_and_it_answers(tmp_path: Path) -> None:
    node = Node(fault="GPU 2 has 17 of 18 NVLinks up")
    one = watched(node, tmp_path)
    ticks(one, 1)
    node.fault = ""
    again = watched(node, tmp_path)
    ticks(again, 1)
    assert node.acts == ["out_of_rotation vllm0", "back vllm0"]
    assert again.standing == ReplicaState()


def test_one_that_hung_before_it_was_held_is_repaired_after_it(tmp_path: Path) -> None:
    node = Node(found=DEADLOCK, rolling=True)
    one = watched(node, tmp_path)
    one.keep(replace(ReplicaState(), out=True, hung=FIRST.invocation, why="it hung"), "ejected", "")
    node.rolling, node.fault = False, "GPU 2 has 17 of 18 NVLinks up"
    ticks(one, 1)
    node.fault = ""
    answers_after_a_restart(node)
    ticks(one, 1)
    assert node.acts[-1] == "back vllm0"
    assert "restart vllm@0.service" in node.acts
