"""What nodes have proven, as a real HAProxy of the fleet takes it: weights, and the floor."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.inventory.keys.gateway import Gateway
from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.secrets import Secret
from b200kit.node.proof import share_answer
from b200kit.node.serving.gateway import drain, haproxy
from b200kit.serving.gateway.haproxy_config import BackendServer, Endpoint
from tests.unit.gateway.proxy import KEYS, Proxy, free_port, mock, running, until
from tests.unit.gateway.test_refusals import ask, certificate

pytestmark = pytest.mark.process

NAMES = ("n0", "n1", "n2")
FLOOR = 2


@dataclass
class Fleet:
    """Three nodes and the fleet's endpoint; *says*: what each node says of its share."""

    proxy: Proxy
    port: int
    says: dict[str, int] = field(default_factory=dict)

    def weights(self) -> dict[str, int]:
        """Server to its weight in force."""
        return {s.name: s.weight for s in haproxy.servers(self.proxy.socket, "nodes")}

    def served_by(self) -> set[str]:
        """Who answers thirty requests."""
        at: Any = SimpleNamespace(url=f"http://127.0.0.1:{self.port}")
        answers = [ask(at, "/v1/models", "node-key") for _ in range(30)]
        assert {answer[0] for answer in answers} == {200}
        return set(Counter(answer[1]["x-served-by"] for answer in answers))


@pytest.fixture(scope="module", params=["plain", "tls"])
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Each node's gateway passes what its own program answers; with TLS and without."""
    says = dict.fromkeys(NAMES, 100)
    servers, port = [], free_port()
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        own, over = threading.local(), threading.Event()
        patch.setattr(share_answer, "now", lambda: says[own.name])

        def answer(name: str, listener: socket.socket) -> None:
            own.name = name
            while not over.is_set():
                share_answer.answer(listener, 0.2)

        for name in NAMES:
            folder = tmp_path_factory.mktemp(name)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(str(folder / "share"))
            listener.listen(16)
            thread = threading.Thread(target=answer, args=(name, listener))
            stack.callback(listener.close)
            stack.callback(thread.join)
            stack.callback(over.set)
            thread.start()
            asked, more, options = free_port(), {}, ""
            if request.param == "tls":
                pem = Secret(certificate(folder))
                more = {
                    "gateway": Gateway(certificate=SecretRef(env="C")),
                    "secrets": {**KEYS, "gateway.certificate": pem},
                }
                verified = f"ca-file {folder}/crt sni str(localhost) verifyhost localhost"
                options = f" ssl verify required {verified}"
            behind = stack.enter_context(mock("1", "1", "2", name))
            node = stack.enter_context(running(folder, [behind], share_port=asked, **more))
            address = node.url.removeprefix("http://")
            servers.append(BackendServer(name, address, 100, options, asked))
        endpoint = Endpoint("fleet", "127.0.0.1", port, "nodes", servers, floor=FLOOR)
        folder = tmp_path_factory.mktemp("fleet")
        yield Fleet(stack.enter_context(running(folder, [1], others=[endpoint])), port, says)


@pytest.fixture(autouse=True)
def proven(fleet: Fleet) -> None:
    """At the beginning everybody has proven everything."""
    fleet.says.update(dict.fromkeys(NAMES, 100))
    until(lambda: fleet.weights() == dict.fromkeys(NAMES, 100))


def test_node_weighs_what_it_says(fleet: Fleet) -> None:
    fleet.says["n1"] = 50
    until(lambda: fleet.weights() == {"n0": 100, "n1": 50, "n2": 100})
    assert fleet.served_by() == {*NAMES}


def test_node_that_says_nothing_is_left_gets_no_more(fleet: Fleet) -> None:
    fleet.says["n1"] = 0
    until(lambda: fleet.weights()["n1"] == 0)
    assert fleet.served_by() == {"n0", "n2"}
    # What was decided by somebody else stays so, whatever the node says.
    haproxy.set_state("n0", "drain", fleet.proxy.socket, fleet.proxy.kept, "nodes")
    fleet.says["n1"] = 100
    until(lambda: fleet.weights()["n1"] == 100)
    assert fleet.served_by() == {"n1", "n2"}
    haproxy.set_state("n0", "ready", fleet.proxy.socket, fleet.proxy.kept, "nodes")


def test_below_the_floor_all_that_are_well_serve_on(fleet: Fleet) -> None:
    fleet.says.update(n1=0, n2=0)
    until(lambda: fleet.weights() == {"n0": 100, "n1": 0, "n2": 0})
    assert fleet.served_by() == {*NAMES}
    fleet.says.update(n0=0)
    until(lambda: fleet.weights()["n0"] == 0)
    at: Any = SimpleNamespace(url=f"http://127.0.0.1:{fleet.port}")
    assert ask(at, "/health", None)[0] == 200
    # One that is drained is not among them, proven or not.
    haproxy.set_state("n2", "drain", fleet.proxy.socket, fleet.proxy.kept, "nodes")
    assert fleet.served_by() == {"n0", "n1"}
    assert drain.open_requests(haproxy.ask("show stat", fleet.proxy.socket)) == 0
    assert {row["be_name"] for row in haproxy.states(fleet.proxy.socket)} == {"replicas", "nodes"}
    haproxy.set_state("n2", "ready", fleet.proxy.socket, fleet.proxy.kept, "nodes")
