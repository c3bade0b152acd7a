"""What a dry run says it would interrupt, against what the run of the same data interrupts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from b200kit.node.state import drift
from tests.fake.fleet import Fleet, Outcome
from tests.fake.machine import Machine
from tests.messages import assert_message
from tests.unit import corpus

ROLL = ("--data", "max_num_seqs=64")
UPGRADE = ("--data", "driver=580.126.20")
REGROUP = ("--data", "replicas=4", "--data", "tensor_parallel=2")
GATEWAY = "haproxy.service"
HOT = "hardware thermal slowdown"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Nodes that serve, each with something of its own since."""
    fleet = Fleet(tmp_path_factory.mktemp("dry") / "site")
    for name in ("sound", "hot", "pending", "lame", "busy"):
        fleet.add(name)
    site = fleet.folder / "group_data" / "nodes.py"
    limits = {"watch_s": 0, "floor": 0, "stop_after": 9}
    site.write_text(f"{site.read_text()}rollout = {limits}\nfabric_deadline_s = 1\n")
    run = fleet.run("b200.py")
    assert run.code == 0, run.stderr
    machines = {name: fleet.machine(name) for name in fleet.names}
    machines["hot"].hardware = corpus.named(HOT).state()
    machines["pending"].write(drift.PENDING_REBOOT)
    machines["lame"].units["vllm@1.service"]["active"] = "inactive"
    machines["busy"].answers = {"rotation list": (True, "vllm0  UP  3 requests\n")}
    for machine in machines.values():
        machine.log.clear()
        machine.save()
    return fleet


def foretold(run: Outcome, name: str) -> set[str]:
    """What a dry run says of a node that it would interrupt."""
    lines = [line for line in run.stderr.splitlines() if line.startswith(f"{name} ")]
    found = " ".join(re.findall(r"; interrupts (.*?):", "\n".join(lines)))
    replicas = {f"vllm@{number}.service" for number in re.findall(r"\d+", found)}
    return replicas | ({GATEWAY} if "the gateway" in found else set())


def interrupted(before: Machine, after: Machine) -> set[str]:
    """What of that ran and was stopped, restarted or went down with a reboot."""
    serving = [u for u in before.units if re.match(r"vllm@\d|haproxy", u) and before.is_active(u)]
    ended = set()
    for line in after.log:
        if "systemctl reboot" in line:
            ended |= {*serving}
        for names in re.findall(r"(?:systemctl (?:stop|restart)|for u in) ([^;&}]*)", line):
            ended |= {*names.split()}
        if rolled := re.search(r"rolling-restart .*--replicas=([\d,]+)", line):
            ended |= {f"vllm@{number}.service" for number in rolled[1].split(",")}
    return ended & {*serving}


def both(live: Fleet, folder: Path, names: list[str], *data: str) -> tuple[Outcome, Outcome]:
    """A dry run and the run, over copies of nodes; they agree on what is interrupted where."""
    fleet = live.copy(folder / "site", *names)
    dry = fleet.run("b200.py", "--dry", *data, yes=False)
    before = {}
    for name in names:
        machine = before[name] = fleet.machine(name)
        assert not machine.ran("put|packages install|systemctl (stop|start)")
        machine.log.clear()
        machine.save()
    run = fleet.run("b200.py", *data)
    for name in names:
        said, done = foretold(dry, name), interrupted(before[name], fleet.machine(name))
        # Where no replica is left the node is drained, and its gateway stops with them.
        assert done - {GATEWAY} == said - {GATEWAY}, name
        assert said <= done, name
    return dry, run


def said(run: Outcome) -> list[str]:
    """The lines about who is not served, and about a node that would leave the run, by node."""
    text = re.sub(r"took [^)]+", "took TIME", run.stderr)
    lines = [li for li in text.splitlines() if re.search("interrupts|RED|FAILED|as it", li)]
    return sorted(lines, key=lambda line: line.split()[0])


@pytest.mark.process
def test_roll_a_sick_node_and_a_reboot_are_foretold(live: Fleet, tmp_path: Path) -> None:
    names = ["sound", "hot", "pending", "lame"]
    dry, run = both(live, tmp_path, names, *ROLL)
    assert_message(*said(dry))
    assert run.outcomes["hot"] == "quarantined"
    # The sick node fails in the look already, and nothing else tells a script so.
    assert (dry.code, re.findall(r"exit (\d)", dry.stdout)) == (1, ["1"])


@pytest.mark.process
def test_upgrade_is_foretold(live: Fleet, tmp_path: Path) -> None:
    dry, _ = both(live, tmp_path, ["sound", "hot"], *UPGRADE)
    assert_message(*said(dry))


@pytest.mark.process
def test_node_that_answers_requests_is_regrouped_once_it_is_drained(
    live: Fleet, tmp_path: Path
) -> None:
    dry, run = both(live, tmp_path, ["sound", "busy"], *REGROUP)
    assert_message(*said(dry))
    assert run.outcomes == {"sound": "live", "busy": "live"}


def test_nothing_is_interrupted_where_nothing_changes(live: Fleet, tmp_path: Path) -> None:
    dry, _ = both(live, tmp_path, ["sound"])
    assert "would" not in dry.stderr
    assert dry.code == 0
