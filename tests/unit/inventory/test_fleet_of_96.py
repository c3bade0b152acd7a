"""The example of twelve nodes: everything it renders, read back as a whole."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from b200kit.catalog import load
from b200kit.inventory.keys.fleet import filled, gateways
from b200kit.inventory.parse import parse
from b200kit.inventory.secrets import Secret
from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib import cpulist
from b200kit.run.node import Node
from b200kit.stages import gateway, serving
from inventories.examples import fleet_96
from tests.unit import states
from tests.unit.gateway.test_lint import broken

KEY = Secret(b"sesame-of-the-fleet")


@dataclass(frozen=True)
class Rendered:
    """A node of the example, and every file that serving and its gateway are."""

    node: Node
    files: dict[str, str]

    def config(self, number: int) -> dict[str, Any]:
        """What a replica's engine reads."""
        return dict(yaml.safe_load(self.files[f"/etc/vllm/replica-{number}.yaml"]))

    def drop_in(self, number: int, name: str) -> str:
        """A drop-in of a replica's unit."""
        return self.files[f"/etc/systemd/system/vllm@{number}.service.d/{name}.conf"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> list[Rendered]:
    """All twelve nodes, each observed as a healthy HGX B200."""
    lock = tmp_path_factory.mktemp("engine") / "engine.txt"
    lock.write_text("# python: 3.12\nvllm==0.33.0 --hash=sha256:00\n")
    return [rendered(name, dict(data), lock) for name, data in fleet_96.nodes]


def rendered(name: str, data: dict[str, Any], lock: Path) -> Rendered:
    """One node, from its inventory data to its files."""
    whole = filled(data, gateways(fleet_96.nodes))
    plain = {key: value for key, value in whole.items() if not key.startswith("ssh_")}
    plain["engine"] = plain["engine"] | {"requirements": str(lock)}
    spec = parse(plain, load.load())
    assert isinstance(spec, NodeSpec), spec
    node = Node(name, spec, {"api_key": KEY})
    node.take_observation(states.recorded("healthy-hgx-b200"))
    layout = node.layout()
    wanted = (stage.desired(node, layout) for stage in (serving.STAGE, gateway.STAGE))
    return Rendered(
        node, {file.path: file.content.decode() for part in wanted for file in part.files}
    )


def test_there_is_one_replica_on_each_of_96_gpus(fleet: list[Rendered]) -> None:
    assert len(fleet) == 12
    replicas = [replica for one in fleet for replica in one.node.replicas]
    assert len(replicas) == 96
    assert all(len(replica.gpus) == replica.tp == 1 for replica in replicas)
    for one in fleet:
        assert len({uuid for replica in one.node.replicas for uuid in replica.uuids}) == 8


def test_every_replica_is_pinned_to_cpus_and_memory_of_its_own_gpu(fleet: list[Rendered]) -> None:
    for one in fleet:
        taken: Counter[int] = Counter()
        for replica in one.node.replicas:
            pins = one.drop_in(replica.replica, "pinning")
            cpus = re.search(r"^CPUAffinity=(.+)$", pins, re.MULTILINE)
            assert cpus
            taken.update(cpulist.parse(cpus[1]))
            assert f"CUDA_VISIBLE_DEVICES={replica.uuids[0]}" in pins
            assert f"NUMAMask={replica.numa_nodes[0]}" in pins
            assert "numa-bind" not in one.config(replica.replica)
        assert set(taken.values()) == {1}


def test_engine_of_each_is_told_the_same_but_for_its_port(fleet: list[Rendered]) -> None:
    configs = [one.config(number) for one in fleet for number in range(8)]
    ports = [config.pop("port") for config in configs]
    assert ports == list(range(8001, 8009)) * 12
    assert all(config == configs[0] for config in configs)
    assert configs[0]["tensor-parallel-size"] == 1
    assert json.loads(configs[0]["speculative-config"])["num_speculative_tokens"] == 1
    assert "nnodes" not in configs[0]
    assert "data-parallel-size" not in configs[0]


def test_replicas_listen_on_loopback_and_the_node_s_gateway_balances_over_them(
    fleet: list[Rendered],
) -> None:
    for number, one in enumerate(fleet, 1):
        proxy = one.files["/etc/haproxy/haproxy.cfg"]
        assert f"bind 10.20.1.{number}:8000" in proxy
        assert len(re.findall(r"^\s*server vllm\d 127\.0\.0\.1:800\d", proxy, re.MULTILINE)) == 8


def test_endpoint_of_the_fleet_has_all_twelve_nodes_behind_it(fleet: list[Rendered]) -> None:
    for number, one in enumerate(fleet, 1):
        proxy = one.files["/etc/haproxy/haproxy.cfg"]
        assert f"bind 10.20.1.{number}:8443" in proxy
        named = re.findall(r"^\s*server (n\d\d) (10\.20\.1\.\d+):8000", proxy, re.MULTILINE)
        # Once by what each has proven, once for the floor.
        assert named == [(f"n{node:02}", f"10.20.1.{node}") for node in range(1, 13)] * 2
        assert proxy.count("balance leastconn") == 3
        assert not broken(proxy)


def test_secret_of_the_fleet_is_in_root_s_files_alone(fleet: list[Rendered]) -> None:
    holding = {path for one in fleet for path, text in one.files.items() if "sesame" in text}
    assert holding == {"/etc/b200kit/secrets/api_key", "/etc/haproxy/b200kit-upstream.map"}
