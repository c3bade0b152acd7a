"""What nodes have proven, as a real HAProxy of the fleet takes it: weights, and the floor."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.inventory.keys.gateway import Gateway
from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.secrets import Secret
from b200kit.node.serving.gateway import drain, haproxy
from b200kit.node.status import server
from b200kit.node.status import shares as own_share
from b200kit.serving.gateway.haproxy_config import BackendServer, GatewayEndpoint
from tests.unit.gateway.proxy import KEYS, Proxy, free_port, mock, running, until
from tests.unit.gateway.test_refusals import ask, certificate

pytestmark = pytest.mark.process

NAMES = ("n0", "n1", "n2")
Shares = tuple[socket.socket, Callable[[str], socket.socket]]
FLOOR = 2


@dataclass
class Fleet:
    """Three nodes and the fleet's endpoint; *says*: what each node says of its share before the
    sign; *asked*: how often each was.
    """

    proxy: Proxy
    port: int
    says: dict[str, int | str] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def hear(self, name: str, says: int | str) -> None:
        """Ask a node until what it says now has been taken, or refused."""
        self.says[name] = says
        before = self.asked[name]
        # The one under way may have been answered before, and the next begins after it ended.
        until(lambda: self.asked[name] > before + 2)

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
    says: dict[str, int | str] = dict.fromkeys(NAMES, 100)
    asked: Counter[str] = Counter()
    servers, port = [], free_port()
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        own, over = threading.local(), threading.Event()

        def now() -> int | str:
            asked[own.name] += 1
            return says[own.name]

        patch.setattr(own_share, "now", now)
        patch.setattr(server, "_EVERY_S", 0.2)

        def answer(name: str, listener: socket.socket) -> None:
            own.name = name
            server.serve({listener: server.answer_share}, lambda: not over.is_set())

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
            asking, more, options = free_port(), {}, ""
            if request.param == "tls":
                pem = Secret(certificate(folder))
                more = {
                    "gateway": Gateway(certificate=SecretRef(env="C")),
                    "secrets": {**KEYS, "gateway.certificate": pem},
                }
                verified = f"ca-file {folder}/crt sni str(localhost) verifyhost localhost"
                options = f" ssl verify required {verified}"
            behind = stack.enter_context(mock("1", "1", "2", name))
            node = stack.enter_context(running(folder, [behind], share_port=asking, **more))
            address = node.url.removeprefix("http://")
            servers.append(BackendServer(name, address, 100, options, asking))
        endpoint = GatewayEndpoint("fleet", "127.0.0.1", port, "nodes", servers, floor=FLOOR)
        folder = tmp_path_factory.mktemp("fleet")
        proxy = stack.enter_context(running(folder, [1], others=[endpoint]))
        yield Fleet(proxy, port, says, asked)


@pytest.fixture(autouse=True)
def proven(request: pytest.FixtureRequest) -> None:
    """At the beginning everybody has proven everything."""
    if "fleet" not in request.fixturenames:
        return
    fleet: Fleet = request.getfixturevalue("fleet")
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


def test_node_that_says_more_than_a_share_is_not_heard(fleet: Fleet) -> None:
    fleet.hear("n1", 25600)
    assert fleet.weights()["n1"] == 100
    # HAProxy would bring back what somebody drained.
    haproxy.set_state("n1", "drain", fleet.proxy.socket, fleet.proxy.kept, "nodes")
    for words in ("ready\n", "up ready 100", "100% ready\n"):
        fleet.hear("n1", words)
        assert fleet.served_by() == {"n0", "n2"}
    haproxy.set_state("n1", "ready", fleet.proxy.socket, fleet.proxy.kept, "nodes")


@pytest.fixture
def shares(tmp_path: Path) -> Iterator[Shares]:
    """Who answers what share this node has, and how an address asks: held open until the end."""
    port, patient = free_port(), Gateway(request_timeout_s=3600)
    with ExitStack() as stack:
        node = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        node.bind(str(tmp_path / "share"))
        node.listen(64)
        stack.enter_context(running(tmp_path, [1], gateway=patient, share_port=port))

        def ask_from(source: str) -> socket.socket:
            asking = socket.create_connection(("127.0.0.1", port), 120, source_address=(source, 0))
            return stack.enter_context(asking)

        yield node, ask_from


def test_one_source_does_not_hold_the_shares_of_all(shares: Shares) -> None:
    node, ask_from = shares
    with ExitStack() as held:
        for _ in range(8):
            ask_from("127.0.0.2")
            held.enter_context(node.accept()[0])
        with suppress(ConnectionError):
            assert ask_from("127.0.0.2").recv(8) == b""
        other = ask_from("127.0.0.3")
        with node.accept()[0] as asked:
            asked.sendall(b"100%\n")
        assert other.recv(8) == b"100%\n"


def test_connection_whose_question_is_answered_is_closed_whoever_holds_it(shares: Shares) -> None:
    node, ask_from = shares

    def answer() -> None:
        with suppress(OSError):
            while True:
                with node.accept()[0] as asked:
                    asked.sendall(b"100%\n")

    def answered() -> bool:
        with suppress(ConnectionError):
            return ask_from("127.0.0.2").recv(8) == b"100%\n"
        return False

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        for _ in range(3 * 8):
            until(answered)
    finally:
        node.shutdown(socket.SHUT_RDWR)
        thread.join()


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
