"""Traffic adapters: their exact command lines against stand-in programs, commands to gateways."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from b200kit.inventory.keys.reprovision import TRAFFIC as NAMES
from b200kit.reprovision import traffic
from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic import command, haproxy, kubernetes, slurm
from b200kit.run.node import Node
from b200kit.run.remote import Remote, RemoteError
from tests.messages import assert_message, raises_message
from tests.unit.nodes import spec


class Programs:
    """Programs on PATH that keep their arguments and answer as configured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"

    def answer(self, program: str, *answers: tuple[str, str, int]) -> None:
        """Say something, and exit with a status, by the first words of the arguments."""
        cases = [
            f"{shlex.quote(words)}*) printf '%s\\n' {shlex.quote(text)} >&$(( {code} ? 2 : 1 ));"
            f" exit {code};;"
            for words, text, code in answers
        ]
        path = self.folder / program
        keep = f'printf "%s" "{program}" >> {self.log}; '
        keep += f'for a; do printf "|%s" "$a" >> {self.log}; done; echo "|$B200_WHY" >> {self.log}'
        path.write_text(f'#!/bin/sh\n{keep}\ncase "$*" in {" ".join(cases)} esac\n')
        path.chmod(0o755)

    def ran(self) -> list[str]:
        """Every call with its arguments, as "program|one|two"."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line.rstrip("|") for line in lines]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Found before the machine's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("B200_WHY", raising=False)
    return Programs(folder)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """The node they are about."""
    return Node("n7", spec(tmp_path, traffic_command=["site-lb", "--cell", "a"]))


def test_every_name_of_the_inventory_has_its_adapter(tmp_path: Path) -> None:
    node = Node("n7", spec(tmp_path, traffic=list(NAMES), traffic_command=["x"]))
    assert [adapter.name for adapter in traffic.adapters(node)] == list(NAMES)


def slurm_node(state: str, reason: str = "") -> str:
    """A line of `scontrol show node --oneliner`, shortened in the middle."""
    why = f" Reason={reason} [root@2026-11-21T09:40:00]" if reason else ""
    return f"NodeName=n7 Arch=x86_64 CPUTot=224 State={state} ThreadsPerCore=2 Partitions=b200{why}"


SHOW = "scontrol|show|node|n7|--oneliner"


def test_slurm_drains_with_the_reason_on_one_line(programs: Programs, node: Node) -> None:
    programs.answer("scontrol", ("show", slurm_node("ALLOCATED"), 0), ("update", "", 0))
    slurm.TRAFFIC.take_out(node, "GPU 2\nhas no NVLink")
    assert programs.ran() == [
        SHOW,
        "scontrol|update|NodeName=n7|State=DRAIN|Reason=b200kit: GPU 2 has no NVLink",
    ]


def test_slurm_keeps_the_reason_of_somebody_else(programs: Programs, node: Node) -> None:
    programs.answer("scontrol", ("show", slurm_node("IDLE+DRAIN", "fan 3 is loud"), 0))
    assert "fan 3 is loud" in slurm.TRAFFIC.take_out(node, "no NVLink")
    assert "stays drained" in slurm.TRAFFIC.bring_back(node, 100)
    assert programs.ran() == [SHOW, SHOW]


@pytest.mark.parametrize(
    ("said", "code", "jobs"),
    [
        ("", 0, 0),
        ("4711\n4712\n4711", 0, 2),
        ("slurm_load_jobs error: Unable to contact slurm controller", 1, None),
        ("something else", 0, None),
    ],
)
def test_slurm_jobs_are_counted_or_nobody_knows(
    programs: Programs, node: Node, said: str, code: int, jobs: int | None
) -> None:
    programs.answer("squeue", ("", said, code))
    assert slurm.TRAFFIC.drained(node) == jobs
    states = "--states=CONFIGURING,RUNNING,COMPLETING,SUSPENDED,STOPPED"
    assert programs.ran() == [f"squeue|--noheader|--nodelist=n7|{states}|--format=%A"]


def test_slurm_resumes_what_it_drained_once_it_is_whole(programs: Programs, node: Node) -> None:
    mine = slurm_node("IDLE+DRAIN", "b200kit: no NVLink")
    programs.answer("scontrol", ("show", mine, 0), ("update", "", 0))
    assert "no shares" in slurm.TRAFFIC.bring_back(node, 5)
    assert programs.ran() == []
    assert slurm.TRAFFIC.bring_back(node, 100) == "Slurm: resumed"
    assert programs.ran() == [SHOW, "scontrol|update|NodeName=n7|State=RESUME"]
    programs.answer("scontrol", ("show", slurm_node("IDLE"), 0))
    assert slurm.TRAFFIC.bring_back(node, 100) == "Slurm: IDLE"


def test_slurm_that_refuses_is_one_line(programs: Programs, node: Node) -> None:
    programs.answer("scontrol", ("show", "slurm_load_node error: Node n7 not found", 1))
    with raises_message(ActionFailed):
        slurm.TRAFFIC.take_out(node, "why")


def test_program_that_is_not_there_is_one_line(programs: Programs, node: Node) -> None:
    del programs
    with raises_message(ActionFailed):
        slurm.TRAFFIC.take_out(node, "why")
    assert slurm.TRAFFIC.drained(node) is None


def kube_node(cordoned: bool, mine: bool) -> str:
    """What `kubectl get node -ojson` prints, as far as it is read."""
    notes = {kubernetes.MARK: "why"} if mine else {}
    spec_ = {"unschedulable": True} if cordoned else {}
    return json.dumps({"metadata": {"name": "n7", "annotations": notes}, "spec": spec_})


GET = "kubectl|get|node|n7|-ojson"


def test_kubernetes_is_marked_before_it_is_cordoned(programs: Programs, node: Node) -> None:
    programs.answer("kubectl", ("get node", kube_node(False, False), 0), ("", "", 0))
    kubernetes.TRAFFIC.take_out(node, "no\nNVLink")
    assert programs.ran() == [
        GET,
        "kubectl|annotate|node|n7|--overwrite|b200kit/quarantine=no NVLink",
        "kubectl|cordon|n7",
    ]


def test_kubernetes_leaves_the_cordon_of_somebody_else(programs: Programs, node: Node) -> None:
    programs.answer("kubectl", ("get node", kube_node(True, False), 0))
    assert "by somebody else" in kubernetes.TRAFFIC.take_out(node, "why")
    assert "stays cordoned" in kubernetes.TRAFFIC.bring_back(node, 100)
    assert programs.ran() == [GET, GET]


def test_kubernetes_uncordons_its_own_once_it_is_whole(programs: Programs, node: Node) -> None:
    programs.answer("kubectl", ("get node", kube_node(True, True), 0), ("", "", 0))
    assert "no shares" in kubernetes.TRAFFIC.bring_back(node, 99)
    assert kubernetes.TRAFFIC.bring_back(node, 100) == "Kubernetes: uncordoned"
    assert programs.ran() == [
        GET,
        "kubectl|uncordon|n7",
        "kubectl|annotate|node|n7|b200kit/quarantine-",
    ]


def pod(owner: str = "ReplicaSet", phase: str = "Running", mirror: bool = False) -> dict[str, Any]:
    """A pod as the API has it, as far as it is read."""
    notes = {"kubernetes.io/config.mirror": "x"} if mirror else {}
    about = {"name": "p", "ownerReferences": [{"kind": owner}], "annotations": notes}
    return {"metadata": about, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("said", "code", "pods"),
    [
        (json.dumps({"items": []}), 0, 0),
        (json.dumps({"items": [pod(), pod("Job", "Pending")]}), 0, 2),
        (json.dumps({"items": [pod("DaemonSet"), pod("Node", mirror=True)]}), 0, 0),
        (json.dumps({"items": [pod(phase="Succeeded"), pod(phase="Failed")]}), 0, 0),
        ("The connection to the server was refused", 1, None),
        ("{}", 0, None),
        ("no JSON", 0, None),
    ],
)
def test_kubernetes_pods_are_evicted_and_counted(
    programs: Programs, node: Node, said: str, code: int, pods: int | None
) -> None:
    late = "error: unable to drain node n7 due to error: global timeout reached: 10s"
    programs.answer("kubectl", ("get pods", said, code), ("drain", late, 1))
    assert kubernetes.TRAFFIC.drained(node) == pods
    assert programs.ran() == [
        "kubectl|drain|n7|--ignore-daemonsets|--delete-emptydir-data|--timeout=10s",
        "kubectl|get|pods|--all-namespaces|--field-selector=spec.nodeName=n7|-ojson",
    ]


def test_command_of_the_site_gets_its_words(programs: Programs, node: Node) -> None:
    programs.answer("site-lb", ("--cell a drained", "looking\n3", 0), ("", "", 0))
    command.TRAFFIC.take_out(node, "no NVLink")
    assert command.TRAFFIC.drained(node) == 3
    command.TRAFFIC.bring_back(node, 5)
    assert programs.ran() == [
        "site-lb|--cell|a|take-out|n7|no NVLink",
        "site-lb|--cell|a|drained|n7",
        "site-lb|--cell|a|bring-back|n7|5",
    ]


@pytest.mark.parametrize(("said", "code"), [("", 0), ("-1", 0), ("three", 0), ("3", 1)])
def test_command_that_tells_no_number_tells_nothing(
    programs: Programs, node: Node, said: str, code: int
) -> None:
    programs.answer("site-lb", ("", said, code))
    assert command.TRAFFIC.drained(node) is None


class Gateways:
    """Hosts of an inventory, what the node program was asked on each, and what it answers."""

    def __init__(self, fleets: dict[str, Any]) -> None:
        self.log: list[str] = []
        self.away: set[str] = set()
        self.answers: dict[str, str | RemoteError] = {}
        hosts = [SimpleNamespace(name=n, data={"fleet": fleet}) for n, fleet in fleets.items()]
        for host in hosts:
            host.inventory = hosts
        self.hosts = {host.name: host for host in hosts}

    def program(self, remote: Remote, words: str) -> str:
        """An answer by the first two words."""
        self.log.append(f"{remote.host.name}: {words}")
        answer = self.answers.get(" ".join(words.split()[:2]), "ok")
        if isinstance(answer, RemoteError):
            raise answer
        return answer

    def reach(self, remote: Remote) -> None:
        """Connect."""
        if remote.host.name in self.away:
            raise RemoteError("not reached: timed out")


Make = Callable[..., tuple[Node, Gateways]]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Node n7 in an inventory with these fleets."""

    def make(**fleets: Any) -> tuple[Node, Gateways]:
        gateways = Gateways({"n7": {"port": 9000}, **fleets})
        monkeypatch.setattr(Remote, "program", lambda r, w, timeout: gateways.program(r, w))
        monkeypatch.setattr(Remote, "ensure_connected", lambda r: gateways.reach(r))
        node = Node("n7", spec(tmp_path))
        node.remote = Remote(cast(Any, gateways.hosts["n7"]), 5)
        return node, gateways

    return make


def test_others_are_told_before_the_nodes_own_gateway_and_after_it_on_the_way_back(
    fleet: Make,
) -> None:
    named = {"port": 9000, "nodes": [{"name": "n7"}, {"name": "n9"}]}
    node, gateways = fleet(n8={"port": 9000}, n9=named, n10={"nodes": [{"name": "n8"}]}, n11=None)
    assert "n8 done; n9 done" in haproxy.TRAFFIC.take_out(node, "why")
    haproxy.TRAFFIC.bring_back(node, 5)
    assert gateways.log == [
        "n8: rotation drain n7",
        "n9: rotation drain n7",
        "n7: drain begin",
        "n7: drain end",
        "n8: rotation share n7 5",
        "n9: rotation share n7 5",
    ]


def test_gateway_that_is_away_is_said_and_stops_nobody(fleet: Make) -> None:
    node, gateways = fleet(n8={"port": 9000}, n9={"port": 9000})
    gateways.away = {"n8"}
    said = haproxy.TRAFFIC.take_out(node, "why")
    assert_message(said)


def test_gateway_that_refuses_ends_it(fleet: Make) -> None:
    node, gateways = fleet(n8={"port": 9000})
    gateways.answers["rotation drain"] = RemoteError("HAProxy: nodes/n7 to drain: No such server.")
    with raises_message(ActionFailed):
        haproxy.TRAFFIC.take_out(node, "why")
    assert gateways.log == ["n8: rotation drain n7"]


def test_node_that_does_not_answer_is_taken_out_by_the_others(fleet: Make) -> None:
    node, gateways = fleet(n8={"port": 9000})
    node.unreachable = "timed out"
    assert_message(haproxy.TRAFFIC.take_out(node, "why"))
    assert gateways.log == ["n8: rotation drain n7"]


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ('{"open": 0}', 0),
        ('{"open": 12}', 12),
        ('{"open": null, "why": "no socket"}', None),
        ("", None),
        (RemoteError("no answer in 60 s"), None),
    ],
)
def test_streams_are_told_by_the_nodes_own_gateway_or_not_at_all(
    fleet: Make, said: Any, count: int | None
) -> None:
    node, gateways = fleet()
    gateways.answers["drain count"] = said
    assert haproxy.TRAFFIC.drained(node) == count
