"""vllm-router behind HAProxy: its arguments, its replicas, and what HAProxy does without it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from b200kit.inventory.keys.gateway import Router
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.serving.gateway import haproxy
from b200kit.node.serving.gateway import router as router_client
from b200kit.node.serving.gateway.router import RouterError
from b200kit.run.remote import RemoteError
from b200kit.serving.gateway import vllm_router
from b200kit.stages import gateway
from tests.messages import assert_message, raises_message
from tests.unit.gateway.proxy import mock, running, until
from tests.unit.gateway.test_refusals import ask
from tests.unit.nodes import look, make, planned, settled
from tests.unit.specs import CATALOGUE, data

FLAGS = Path(__file__).parents[2] / "data" / "vllm-router-0.1.17-flags.txt"


def asked(folder: Path, **changes: Any) -> dict[str, Any]:
    """Inventory data of a gateway with a router."""
    listed = folder / "router.txt"
    listed.write_text("vllm-router==0.1.17 --hash=sha256:00\n")
    return {"router": {"requirements": str(listed), "version": "0.1.17"}, **changes}


def test_every_argument_is_one_of_the_launchers(tmp_path: Path) -> None:
    known = set(FLAGS.read_text().splitlines())
    words = vllm_router.arguments(Router(requirements=str(tmp_path), version="0.1.17"), 32)
    flags = words[::2]
    assert set(flags) <= known
    given = dict(zip(flags, words[1::2], strict=True))
    assert given["--health-check-interval-secs"] == "2"
    assert given["--retry-max-retries"] == "1"  # the first attempt is one of them
    assert "--worker-urls" not in flags


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"weights": [9, 1]}, "gateway.weights"),
        ({"router": {"requirements": "x", "version": "0.1.14"}}, "gateway.router.version"),
        ({"router": {"requirements": "x", "version": "latest"}}, "gateway.router.version"),
    ],
)  # fmt: skip
def test_router_that_cannot_work_is_refused(
    tmp_path: Path, changes: dict[str, Any], key: str
) -> None:
    found = parse(data(gateway=asked(tmp_path, **changes)), CATALOGUE)
    assert not isinstance(found, NodeSpec)
    assert [problem.key for problem in found] == [key]
    assert_message(found[0].message)


def test_node_without_a_router_has_nothing_of_one(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    desired = gateway.desired(node, node.layout())
    assert not [file.path for file in desired.files if "router" in file.path]
    assert [unit.name for unit in desired.units] == ["vllm.target", "haproxy.service"]
    assert "backend router" not in desired.files[0].content.decode()


def test_router_runs_on_the_cpus_of_the_gateway(tmp_path: Path) -> None:
    node, _ = settled(tmp_path, gateway=asked(tmp_path))
    lines = {
        line
        for file in gateway.desired(node, node.layout()).files
        if file.path.startswith("/etc/systemd/system/")
        for line in file.content.decode().splitlines()
        if line.startswith("CPUAffinity=")
    }
    assert lines == {"CPUAffinity=0-1,56-57,112-113,168-169"}


def test_router_is_installed_between_its_files_and_its_start(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, gateway=asked(tmp_path))
    machine.units["b200-router.service"]["active"] = "inactive"
    for path in [path for path in machine.files if path.startswith("/opt/vllm-router/")]:
        del machine.files[path]
    machine.write(vllm_router.REQUIREMENTS, b"older")
    look(node)
    assert planned(node, "gateway") == [
        f"write {vllm_router.REQUIREMENTS}",
        "install vllm-router 0.1.17",
        "enable b200-router.service",
    ]
    make(node, "gateway")
    [installed] = machine.ran("router-requirements.txt")
    assert "--require-hashes --only-binary :all: " in installed
    assert "--no-index --find-links https://mirror.example.internal/wheels/" in installed
    # Told apart from another project's package before it is stamped.
    assert installed.index(vllm_router.ENTRY) < installed.index("echo done")
    assert planned(node, "gateway") == []


def test_router_of_another_project_is_refused_with_its_name(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, gateway=asked(tmp_path))
    for path in [path for path in machine.files if path.startswith("/opt/vllm-router/")]:
        del machine.files[path]
    said = "b200kit: vllm-router 0.1.17 was asked for; this is 0.1.12, whose program is ['app']"
    machine.answers = {"router-requirements": (False, said), "^df ": (True, "9000M")}
    look(node)
    with raises_message(RemoteError):
        make(node, "gateway")


class Pretended(BaseHTTPRequestHandler):
    """As vllm-router 0.1.17 answers."""

    workers: ClassVar[list[str]] = []
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        """Add or remove."""
        path, _, url = self.path.partition("?url=")
        self.asked.append(self.path)
        known = url in self.workers
        if path == "/add_worker" and not known:
            self.workers.append(url)
        elif path == "/remove_worker" and known:
            self.workers.remove(url)
        said = b"Worker already exists" if path == "/add_worker" and known else b"done"
        self.send_response(400 if b"exists" in said else 200 if "worker" in path else 404)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *given: object) -> None:
        """Nothing."""


@pytest.fixture
def pretended() -> Iterator[str]:
    """Its URL."""
    Pretended.workers.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pretended)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def config(folder: Path, url: str) -> Path:
    """/etc/b200kit/router.json."""
    path = folder / "router.json"
    path.write_text(
        f'{{"url": "{url}", "workers": {{"vllm0": "http://w0", "vllm1": "http://w1"}}}}'
    )
    return path


def test_replica_that_is_set_aside_is_removed_and_added_when_it_is_back(
    tmp_path: Path, pretended: str
) -> None:
    path = config(tmp_path, pretended)
    for name, usable in (("vllm0", True), ("vllm1", True), ("vllm1", True), ("vllm0", False)):
        router_client.tell(name, usable, path)
    assert Pretended.workers == ["http%3A%2F%2Fw1"]
    router_client.tell("n07", False, path)  # a node of the fleet is none of its workers


def test_router_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    router_client.tell("vllm0", True, tmp_path / "none")
    router_client.tell("vllm0", True, config(tmp_path, "http://127.0.0.1:1"))


def test_router_that_refuses_is_one_line(tmp_path: Path, pretended: str) -> None:
    with pytest.raises(RouterError, match=r"vllm-router at http://.*: done"):
        router_client._ask(pretended, "/other")


@pytest.mark.process
def test_haproxy_asks_the_router_and_does_without_it_when_it_is_gone(tmp_path: Path) -> None:
    with (
        mock("1", "1", "2", "one") as one,
        mock("1", "1", "2", "two") as two,
        mock("1", "1", "2", "router") as choosing,
    ):
        chosen = Router(requirements="x", version="0.1.17", port=choosing)
        with running(tmp_path, [one, two], router=chosen) as proxy:
            until(lambda: haproxy.servers(proxy.socket, "router")[0].status == "UP")
            seen = Counter(ask(proxy, key="node-key")[1]["x-served-by"] for _ in range(6))
            assert seen == {"router": 6}
            text = proxy.config.read_text().replace(f":{choosing} ", ":1 ")
            proxy.config.write_text(text)
            proxy.reload()
            seen = Counter(ask(proxy, key="node-key")[1]["x-served-by"] for _ in range(6))
            assert set(seen) <= {"one", "two"}
            haproxy.set_state("vllm0", "drain", proxy.socket, proxy.kept)
            seen = Counter(ask(proxy, key="node-key")[1]["x-served-by"] for _ in range(6))
            assert seen == {"two": 6}
