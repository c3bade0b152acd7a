"""Who may come in, with what, how often: asked of a real HAProxy."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from b200kit.inventory.keys.gateway import Client, Gateway
from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.secrets import Secret
from b200kit.node.client import engine_metrics
from b200kit.node.client.chat import ChatRequest, Endpoint, chat
from b200kit.node.serving.gateway import haproxy
from b200kit.serving.gateway import haproxy_config
from tests.subtests import in_subtests
from tests.unit.gateway.proxy import KEYS, Proxy, check, mock, rendered, running
from tests.unit.node.client import server_thread

CHAT = "/v1/chat/completions"
CLIENTS = Gateway(
    clients=(
        Client(name="team-a", key=SecretRef(env="A"), requests_per_minute=5),
        Client(name="team-b", key=SecretRef(env="B")),
        Client(name="team-c", key=SecretRef(env="C")),
    ),
    max_body_mib=1,
)
SECRETS = {
    **KEYS,
    "gateway.clients.0.key": Secret(b"key-of-a"),
    "gateway.clients.1.key": Secret(b"key-of-b"),
    "gateway.clients.2.key": Secret(b'key,of=c,"with;marks#'),
}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A gateway with two clients of its own beside the node's key, before one mock server."""
    folder = tmp_path_factory.mktemp("proxy")
    with (
        mock("1", "1", "2") as port,
        running(folder, [port], gateway=CLIENTS, secrets=SECRETS) as found,
    ):
        yield found


def ask(
    proxy: Proxy, path: str = "/v1/models", key: str | None = "key-of-b", body: bytes | None = None,
    **fields: str,
) -> tuple[int, dict[str, str], Any]:  # fmt: skip
    """Status, header fields and JSON of one request."""
    parts = urlsplit(proxy.url)
    line = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    line.request("POST" if body is not None else "GET", path, body, headers)
    answer = line.getresponse()
    text = answer.read()
    line.close()
    document = json.loads(text) if text.startswith(b"{") else None
    return answer.status, {k.lower(): v for k, v in answer.getheaders()}, document


def test_configuration_is_taken_by_haproxy_without_a_warning(tmp_path: Path) -> None:
    config, _ = rendered(tmp_path, [8001, 8002], CLIENTS, SECRETS, share_port=7999)
    (tmp_path / "kept").write_text("1\n")
    judged = check(config)
    assert judged.returncode == 0, judged.stderr
    assert "WARNING" not in judged.stderr, judged.stderr


def test_configuration_with_a_mistake_is_refused_by_haproxy(tmp_path: Path) -> None:
    config, _ = rendered(tmp_path, [8001])
    config.write_text(config.read_text().replace("balance leastconn", "balance leastcon"))
    assert check(config).returncode != 0


@in_subtests(
    "path",
    ["/metrics", "/v1/../metrics", "/v1/models/x", "/V1/models", "/tokenize", "/invocations",
     "/v1%2fmodels", "/version", "/pause", "//v1/models", "/"],
)  # fmt: skip
def test_path_that_is_not_served_is_forbidden_with_and_without_a_key(
    proxy: Proxy, path: str
) -> None:
    for key in ("key-of-b", None):
        status, _, document = ask(proxy, path, key)
        assert status == 403
        assert document["error"]["code"] == "path_not_served"


@in_subtests("key", [None, "", "wrong", "KEY-OF-B", "key-of-b x", "node", "key"])
def test_without_a_known_key_nobody_comes_in(proxy: Proxy, key: str | None) -> None:
    status, fields, document = ask(proxy, key=key)
    assert status == 401
    assert document["error"]["code"] == "invalid_api_key"
    assert fields["www-authenticate"] == "Bearer"


@in_subtests("key", ["key-of-b", "node-key", 'key,of=c,"with;marks#'])
def test_replica_is_shown_its_own_key_whoever_asks(proxy: Proxy, key: str) -> None:
    status, _, document = ask(proxy, key=key)
    assert status == 200
    assert document["headers"]["authorization"] == "Bearer node-key"


def test_request_keeps_its_name_or_gets_one(proxy: Proxy) -> None:
    _, fields, document = ask(proxy, X_Request_Id="job-7")
    assert fields["x-request-id"] == document["headers"]["x-request-id"] == "job-7"
    _, fields, document = ask(proxy)
    assert len(fields["x-request-id"]) == 36
    assert fields["x-request-id"] == document["headers"]["x-request-id"]


def test_client_beyond_its_rate_is_refused_and_the_others_are_not(proxy: Proxy) -> None:
    statuses = Counter(ask(proxy, key="key-of-a")[0] for _ in range(8))
    assert statuses == {200: 5, 429: 3}
    status, fields, document = ask(proxy, key="key-of-a")
    assert (status, fields["retry-after"]) == (429, "60")
    assert document["error"]["code"] == "rate_limit_exceeded"
    assert {ask(proxy, key="key-of-b")[0] for _ in range(8)} == {200}


@pytest.mark.process
def test_health_is_for_anybody_and_says_whether_anyone_answers(
    proxy: Proxy, tmp_path: Path
) -> None:
    assert ask(proxy, "/health", None)[0] == 200
    with running(tmp_path, [1]) as lonely:
        while ask(lonely, "/health", None)[0] != 503:  # until the first two checks have failed
            pass


def test_no_key_is_in_the_configuration_and_no_clients_key_on_the_node() -> None:
    endpoint = haproxy_config.GatewayEndpoint("endpoint", "127.0.0.1", 1, "replicas", [])
    found = {f.path: f for f in haproxy_config.files(CLIENTS, [endpoint], SECRETS)}
    texts = {path: file.content for path, file in found.items()}
    assert b"key-of-a" not in b"".join(texts.values())
    assert [path for path, text in texts.items() if b"node-key" in text] == [
        haproxy_config.PATHS.upstream
    ]
    for path in (haproxy_config.PATHS.upstream, haproxy_config.PATHS.clients):
        assert (found[path].mode, found[path].owner, found[path].secret) == (
            0o600, "root:root", True,
        )  # fmt: skip


@pytest.mark.process
def test_weights_are_exact_shares_of_the_requests(tmp_path: Path) -> None:
    with (
        mock("1", "1", "2", "most") as most,
        mock("1", "1", "2", "few") as few,
        running(tmp_path, [most, few], weights=[90, 10]) as proxy,
    ):
        served = Counter(ask(proxy, key="node-key")[1]["x-served-by"] for _ in range(100))
    assert served == {"most": 90, "few": 10}


def certificate(folder: Path, name: str = "localhost") -> bytes:
    """A certificate for a name, this machine as a rule, and its key, in one PEM."""
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
             f"subjectAltName=DNS:{name},IP:127.0.0.1"]  # fmt: skip
    made += ["-keyout", str(folder / "key"), "-out", str(folder / "crt")]
    subprocess.run(made, check=True, capture_output=True)
    return (folder / "crt").read_bytes() + (folder / "key").read_bytes()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, Path]]:
    """A gateway with TLS, and the file with the public part of its certificate."""
    folder = tmp_path_factory.mktemp("tls")
    gateway = Gateway(certificate=SecretRef(env="C"))
    secrets = {**KEYS, "gateway.certificate": Secret(certificate(folder))}
    with (
        mock("1", "1", "2") as port,
        running(folder, [port], gateway=gateway, secrets=secrets) as found,
    ):
        yield found, folder / "b200kit.crt"


def over_tls(proxy: Proxy, context: ssl.SSLContext) -> tuple[int, str | None]:
    """Status of a request over TLS, and the protocol's version."""
    port = urlsplit(proxy.url).port
    line = http.client.HTTPSConnection("localhost", port, context=context, timeout=120)
    line.request("GET", "/v1/models", headers={"Authorization": "Bearer node-key"})
    version = line.sock.version()
    status = line.getresponse().status
    line.close()
    return status, version


@pytest.mark.process
def test_tls_is_modern_and_old_protocols_are_refused(encrypted: tuple[Proxy, Path]) -> None:
    proxy, public = encrypted
    context = ssl.create_default_context(cafile=str(public))
    assert over_tls(proxy, context) == (200, "TLSv1.3")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert over_tls(proxy, context) == (200, "TLSv1.2")
    context.set_ciphers("AES128-SHA:AES256-GCM-SHA384")
    with pytest.raises(ssl.SSLError):
        over_tls(proxy, context)


@pytest.mark.process
def test_public_part_of_the_certificate_has_no_key(encrypted: tuple[Proxy, Path]) -> None:
    text = encrypted[1].read_text()
    assert text.count("BEGIN CERTIFICATE") == 1
    assert "PRIVATE" not in text


@pytest.mark.process
def test_stream_that_broke_off_is_never_sent_a_second_time(tmp_path: Path) -> None:
    broken = server_thread.fast(fault="cut-off")
    with (
        server_thread.running(broken) as one,
        server_thread.running(broken) as other,
        running(tmp_path, [urlsplit(url).port or 0 for url in (one, other)]) as proxy,
    ):
        request = ChatRequest(server_thread.MODEL, "hello", 8)
        answer = asyncio.run(chat(Endpoint(proxy.url, "node-key"), request))
        assert "cut off" in (answer.record().error or "")
        assert answer.raw.pieces
        counts = [asyncio.run(engine_metrics.scrape(Endpoint(url))) for url in (one, other)]
    asked = [count["vllm:prompt_tokens_total"] for count in counts if isinstance(count, dict)]
    assert sorted(bool(tokens) for tokens in asked) == [False, True]


@pytest.mark.process
@pytest.mark.parametrize("before", [0, 8])
def test_request_that_ends_its_replica_is_sent_to_no_other(tmp_path: Path, before: int) -> None:
    """The first of a connection, and one after others that went well."""
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(mock("1", "1", "2")) for _ in range(5)]
        proxy = stack.enter_context(running(tmp_path, ports))
        line = http.client.HTTPConnection("127.0.0.1", urlsplit(proxy.url).port, timeout=120)
        stack.callback(line.close)
        for body in [b"{}"] * before:
            assert post(line, body) == 200
        # On a connection in use HAProxy hangs up instead, as a server does that had ended before.
        assert post(line, b"crash") in ((502,) if before == 0 else (502, None))
        assert sum(answers(port) for port in ports) == 4


def post(line: http.client.HTTPConnection, body: bytes) -> int | None:
    """Status of a completion; None where there was no answer."""
    try:
        line.request("POST", CHAT, body, {"Authorization": "Bearer node-key"})
        answer = line.getresponse()
        answer.read()
    except ConnectionError:
        return None
    return answer.status


def answers(port: int) -> bool:
    """Whether a server is there."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    with contextlib.closing(line), contextlib.suppress(ConnectionError):
        line.request("GET", "/count")
        return line.getresponse().status == 200
    return False


@pytest.mark.process
def test_key_of_the_replicas_changes_one_at_a_time_and_nobody_is_refused(tmp_path: Path) -> None:
    """A restarted replica has the new key, the other still the old one."""
    long = b'{"prompt": "' + b"x" * 100_000 + b'"}'
    with (
        mock("1", "1", "2", "old", "node-key") as old,
        mock("1", "1", "2", "new", "next-key") as new,
        running(tmp_path, [old, new]) as proxy,
    ):
        served = Counter(ask(proxy, CHAT, "node-key", long)[1]["x-served-by"] for _ in range(8))
        assert served == {"old": 8}
        upstream = tmp_path / "b200kit-upstream.map"
        haproxy.show_key("next-key", proxy.socket, upstream)
        served = Counter(ask(proxy, CHAT, "node-key", long)[1]["x-served-by"] for _ in range(8))
        assert served == {"new": 8}
        assert "next-key" not in upstream.read_text()


@pytest.mark.process
def test_replica_that_dies_before_an_answer_is_left_for_another(tmp_path: Path) -> None:
    """Nobody listens on the first port, and the checks have not found out yet."""
    with mock("1", "1", "2") as port, running(tmp_path, [1, port]) as proxy:
        statuses = Counter(ask(proxy, CHAT, "node-key", b"{}")[0] for _ in range(20))
    assert statuses == {200: 20}
