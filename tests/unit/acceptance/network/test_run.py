"""A fleet measured from the controller: over simulated nodes, killed, sealed, verified."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from b200kit.acceptance.network.results import FlowLine, PlannedNode
from b200kit.acceptance.network.run import Measurement, NetworkNode, NetworkResult, verified
from b200kit.inventory.keys.rails import Rail
from b200kit.node.acceptance import folder as folders
from b200kit.node.lib import signature
from b200kit.node.state.verdict import Status
from b200kit.run import signed_proof
from b200kit.run.remote import RemoteError
from tests.subtests import in_subtests
from tests.unit.acceptance.network.ports import port


class Killed(BaseException):
    """The controller's end."""


@dataclass
class Fleet:
    """Nodes in memory with two rails each, four to a leaf."""

    count: int
    key: Path
    cables: set[tuple[str, int]] = field(default_factory=set)
    inside: set[tuple[str, int]] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    garbled: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    transfers: list[tuple[str, str, int, str]] = field(default_factory=list)
    dies_after: int = -1
    stumbles: int = 0
    serving: set[tuple[str, int]] = field(default_factory=set)

    def nodes(self) -> list[NetworkNode]:
        names = [f"n{number:02d}" for number in range(self.count)]
        return [
            NetworkNode(name, self.planned(at, name), self.ask(name))
            for at, name in enumerate(names)
        ]

    def planned(self, at: int, name: str) -> PlannedNode:
        rails = [
            Rail(rail=rail, hca=f"mlx5_{rail}", leaf=f"leaf-{rail}-{at // 4}", gbit=400,
                 lossless=False, tclass=106, priority=3)
            for rail in (0, 1)
        ]  # fmt: skip
        return PlannedNode(name, tuple(rail.model_dump() for rail in rails))

    def ask(self, name: str) -> Callable[[str, str, float], str]:
        def answer(words: str, stdin: str, limit: float) -> str:
            assert limit > 0
            self.asked.append(words)
            if len(self.asked) == self.dies_after:
                raise Killed
            if name in self.absent and "pair" in words:
                raise RemoteError("no answer in 30 s")
            if name in self.garbled and words != "acceptance sign":
                return '{"ports": "none", "results": []}'
            if words == "acceptance sign":
                signed = signature.sign(stdin.encode(), self.key, signature.ACCEPTANCE)
                return signed.decode()
            request = json.loads(stdin)
            if words == "acceptance-network":
                return json.dumps({"ports": [self.port(name, each) for each in request["ports"]]})
            act = words.rpartition(" ")[2]
            return json.dumps({"results": [self.flow(act, name, f) for f in request["flows"]]})

        return answer

    def port(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        leaf = {"switch": asked["leaf"], "port": "1", "description": None}
        own = {"rail": asked["rail"], "hca": asked["hca"], "guid": f"{name}/{asked['hca']}"}
        return port() | own | {"neighbour": leaf}

    def flow(self, act: str, name: str, flow: dict[str, Any]) -> dict[str, Any]:
        rail, test = int(flow["hca"][-1]), flow["test"]
        assert flow["gid"] == 5
        result: dict[str, Any] = {
            "outcome": "done", "why": "", "figures": {}, "before": None, "after": None
        }  # fmt: skip
        if act == "serve":
            assert (name, rail) not in self.serving
            self.serving.add((name, rail))
            return result | {"before": {"rx_prio0_bytes": 5, "rx_prio3_bytes": 100}}
        if act == "end":
            self.serving.remove((name, rail))
            return result | {"after": {"rx_prio0_bytes": 6, "rx_prio3_bytes": 9100}}
        assert (flow["server"], rail) in self.serving
        self.transfers.append((name, flow["server"], rail, test))
        if self.stumbles:
            self.stumbles -= 1
            return result | {"outcome": "machinery", "why": "Couldn't connect"}
        ends = {(name, rail), (flow["server"], rail)}
        bad = ends & self.inside or (len(ends) > 1 and ends & self.cables)
        figures = {"BW_average": 180.0 if bad else 391.0} if test == "bw" else {"t_typical": 2.7}
        return result | {"figures": figures}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def measured(fleet: Fleet, root: Path) -> NetworkResult:
    return Measurement(fleet.nodes(), root, lambda _: None, 5.0).run()


def failures(found: NetworkResult) -> set[tuple[str, str]]:
    return {(f.check, f.subject) for f in found.verdict.findings if f.status is Status.FAIL}


def allowed(key: Path) -> Callable[[str], str]:
    words = Path(f"{key}.pub").read_text("utf-8").split()[:2]
    return lambda node: signed_proof.signers(node, [" ".join(words)], signature.ACCEPTANCE)


def test_a_sound_fleet_passes_and_every_node_signs_that(tmp_path: Path, key: Path) -> None:
    fleet = Fleet(8, key)
    found = measured(fleet, tmp_path)
    assert found.verdict.fit == "fit"
    # All pairs, both ways, two rails, bandwidth and latency; blame needs no more of them.
    assert len(fleet.transfers) == 8 * 7 * 2 * 2
    assert verified(found.path, allowed(key)) == found


def test_a_cable_and_a_port_are_named_and_nobody_else(tmp_path: Path, key: Path) -> None:
    found = measured(Fleet(8, key, cables={("n05", 1)}, inside={("n02", 0)}), tmp_path)
    assert failures(found) == {
        ("network.traffic", "rail 0"), ("network.traffic", "rail 1"),
        ("network.blame", "n05 rail 1"), ("network.blame", "n02 rail 0"),
    }  # fmt: skip
    assert {f.kind for f in found.verdict.findings if f.check == "network.blame"} == {
        "cable",
        "port",
    }
    assert verified(found.path, allowed(key)).verdict == found.verdict


def test_a_node_that_does_not_answer_is_unmeasured_and_the_others_are_judged(
    tmp_path: Path, key: Path
) -> None:
    for fleet in (Fleet(8, key, absent={"n03"}), Fleet(8, key, garbled={"n03"})):
        found = measured(fleet, tmp_path)
        blamed = [f for f in found.verdict.findings if f.check == "network.blame"]
        assert [(f.subjects, f.status) for f in blamed] == [(("n03",), Status.UNMEASURED)]
        assert found.verdict.fit == "unmeasured"


def test_machinery_is_tried_once_more_and_no_failure_is(tmp_path: Path, key: Path) -> None:
    fleet = Fleet(2, key, stumbles=1)
    assert measured(fleet, tmp_path).verdict.fit == "fit"
    assert len(fleet.transfers) > len({*fleet.transfers})
    slow = Fleet(8, key, cables={("n05", 1)})
    found = measured(slow, tmp_path / "slow")
    first = [t for t in slow.transfers if t == ("n05", "n04", 1, "bw")]
    assert len(first) <= 2
    lines = [line for line in folders.lines(found.path, FlowLine) if line.gbit == 180.0]
    assert {line.attempt for line in lines} <= {1, 2}


@in_subtests("after", range(1, 90, 7), one_in=3)
def test_a_killed_controller_goes_on_and_makes_no_transfer_twice(
    after: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    fleet = Fleet(4, key, cables={("n02", 0)}, dies_after=after)
    whole = measured(Fleet(4, key, cables={("n02", 0)}), folder / "whole")
    with suppress(Killed):
        measured(fleet, folder)
    for half in folder.glob(f"network-*/{folders.LINES}"):
        half.write_bytes(half.read_bytes() + b'{"client": "n0')
    read = len(list(folder.glob("network-*/facts/*.json")))
    again = Fleet(4, key, cables={("n02", 0)})
    found = measured(again, folder)
    assert again.asked.count("acceptance-network") == 8 - read
    assert found.verdict == whole.verdict
    assert len(list(folder.glob("network-*"))) == 1 + (after > len(fleet.asked))
    lines = folders.lines(found.path, FlowLine)
    assert len({line.flow for line in lines}) == len(lines)
    assert verified(found.path, allowed(key)) == found


def test_a_seal_that_was_cut_short_is_made_again(tmp_path: Path, key: Path) -> None:
    fleet = Fleet(2, key)
    measured(fleet, tmp_path / "whole")
    with pytest.raises(Killed):
        measured(Fleet(2, key, dies_after=len(fleet.asked)), tmp_path)
    assert len(list(tmp_path.glob("network-*/signatures/*"))) == 1
    found = measured(Fleet(2, key), tmp_path)
    assert verified(found.path, allowed(key)) == found


def test_each_byte_of_a_sealed_run_counts(tmp_path: Path, key: Path) -> None:
    found = measured(Fleet(2, key), tmp_path)
    for file in sorted(path for path in found.path.rglob("*") if path.is_file()):
        content = file.read_bytes()
        middle = len(content) // 2
        file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        with pytest.raises(ValueError, match=r": |line"):
            verified(found.path, allowed(key))
        file.write_bytes(content)
    (found.path / "more").touch()
    with pytest.raises(ValueError, match=r"^more: "):
        verified(found.path, allowed(key))
    (found.path / "more").unlink()
    assert verified(found.path, allowed(key)) == found


def test_a_run_of_other_ports_is_not_gone_on_with(tmp_path: Path, key: Path) -> None:
    with pytest.raises(Killed):
        measured(Fleet(4, key, dies_after=9), tmp_path)
    measured(Fleet(3, key), tmp_path)
    assert len(list(tmp_path.glob("network-*"))) == 2
