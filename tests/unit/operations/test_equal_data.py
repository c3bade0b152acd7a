"""Nodes of equal data: parsed, checked and rendered once, however many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.inventory import secrets
from b200kit.operations import connections, named_files, observe, preflight
from b200kit.run.node import Node
from b200kit.stages import gate
from tests.unit.nodes import spec
from tests.unit.specs import VENDOR_KEY, data


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site's folder with the files that the data name."""
    monkeypatch.chdir(tmp_path)
    for name in ("keys/vendor.asc", "requirements/engine.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(VENDOR_KEY)


def host(name: str, read: Callable[[str], object] = len, **more: Any) -> Any:
    """A host of an inventory with this data of its own; *read* is called when that is read."""

    def given() -> dict[str, Any]:
        read(name)
        return data(**more)

    return SimpleNamespace(name=name, data=SimpleNamespace(dict=given, get={}.get))


class Counting:
    """Counts calls of functions by a name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        self._monkeypatch = monkeypatch

    def of(self, module: Any, name: str) -> None:
        """Count the calls of a function from now on."""
        function: Callable[..., Any] = getattr(module, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            return function(*args, **kwargs)

        self._monkeypatch.setattr(module, name, counted)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """What preflight does of each kind, without pyinfra's own checks and the files' content."""
    monkeypatch.setattr(connections, "problems", lambda state, host: [])
    monkeypatch.setattr(named_files, "missing", lambda spec: [])
    monkeypatch.setattr(named_files, "wrong", lambda spec: [])
    monkeypatch.setattr(secrets, "resolve", lambda spec, reprovisioning: ({}, []))
    found = Counting(monkeypatch)
    found.of(preflight, "parse")
    found.of(preflight, "_broken_templates")
    # The gate's stage has two templates.
    found.of(gate, "render")
    return found


def prepared(hosts: list[Any]) -> list[Node]:
    """The nodes of these hosts."""
    state: Any = SimpleNamespace(inventory=hosts)
    alike = preflight.SpecCache(state)
    found = [alike.node(one) for one in hosts]
    assert all(isinstance(node, Node) for node in found), found
    return [node for node in found if isinstance(node, Node)]


@pytest.mark.parametrize("count", [2, 200])
def test_nodes_of_equal_data_are_parsed_and_rendered_once(count: int, counting: Counting) -> None:
    nodes = prepared([host(f"n{number}") for number in range(count)])
    assert counting.calls == {"parse": 1, "_broken_templates": 1, "render": 2}
    assert len({id(node.spec) for node in nodes}) == 1
    assert len({node.nonce for node in nodes}) == count


def test_node_of_other_data_is_one_of_its_own(counting: Counting) -> None:
    hosts = [host(f"n{number}") for number in range(20)]
    nodes = prepared([*hosts, host("n20", driver="580.105.08")])
    assert counting.calls["parse"] == counting.calls["_broken_templates"] == 2
    assert nodes[-1].spec.driver != nodes[0].spec.driver


@pytest.mark.parametrize("count", [2, 40])
def test_first_request_is_rendered_once_and_has_each_nodes_own_key(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, alike = spec(tmp_path), dict[str, Any]()
    nodes = [Node(f"n{number}", parsed, alike=alike) for number in range(count)]
    counting = Counting(monkeypatch)
    counting.of(observe, "_request")
    requests = [observe.observe_request(node) for node in nodes]
    assert counting.calls == {"_request": 1}
    assert [set(request["secrets"].values()) or {node.nonce} for request, node in
            zip(requests, nodes, strict=True)] == [{node.nonce} for node in nodes]  # fmt: skip


def test_gateways_of_all_hosts_are_read_once(counting: Counting) -> None:
    asked: Counter[str] = Counter()

    def note(name: str) -> None:
        asked[name] += 1

    names = [f"n{number}" for number in range(50)]
    [first, *_] = prepared([host(name, note, fleet={"port": 8443}) for name in names])
    assert first.spec.fleet
    assert len(first.spec.fleet.nodes) == 50
    assert set(asked.values()) == {2}
    assert counting.calls["parse"] == 1


def test_request_is_of_the_spec_that_the_node_is_worked_with_now(counting: Counting) -> None:
    [node] = prepared([host("n1")])
    first = observe.observe_request(node)
    node.spec = node.spec.replace(model_revision="ab" * 32, replicas=1)
    other = observe.observe_request(node)
    assert first["placement"] == ["vllm@0.service", "vllm@1.service"]
    assert other["placement"] == ["vllm@0.service"]
    assert other["weights"] != first["weights"]
