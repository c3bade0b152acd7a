"""Each rule of the lint has a configuration that breaks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.converge.stage import nominal_layout
from b200kit.inventory.keys.gateway import Gateway
from b200kit.run.render import RenderError
from b200kit.serving.gateway import haproxy_config
from b200kit.serving.gateway.haproxy_lint import problems
from b200kit.stages import gateway
from tests.fake.machine import Machine
from tests.subtests import in_subtests
from tests.unit.nodes import connected


@pytest.fixture(scope="module")
def config() -> str:
    """The configuration of a plain node."""
    servers = [haproxy_config.BackendServer("vllm0", "127.0.0.1:8001")]
    endpoint = haproxy_config.Endpoint("endpoint", "127.0.0.1", 8000, "replicas", servers)
    files = haproxy_config.files(Gateway(), [endpoint], {})
    return files[0].content.decode()


def test_rendered_configuration_breaks_no_rule(config: str) -> None:
    assert list(problems(config)) == []


@in_subtests(
    "line",
    ["option http-no-delay", "option redispatch 1", "balance leastconn",
     "option httpchk GET /health", "unless served", "timeout http-request 30s",
     "timeout client 30s", "sc1_conn_cur gt 1024 }", "load-server-state-from-file global"],
)  # fmt: skip
def test_line_that_is_gone_is_missed(config: str, line: str) -> None:
    spoilt = "\n".join(text for text in config.splitlines() if not text.endswith(line))
    assert spoilt != config
    assert list(problems(spoilt))


@in_subtests(
    ("old", "new"),
    [
        ("option http-no-delay", "# option http-no-delay"),
        ("mode 600", "mode 666"),
        ("timeout client 30s", "timeout client 1h"),
        ("retry-on conn-failure", "retry-on empty-response conn-failure"),
        ("retry-on conn-failure", "retry-on response-timeout conn-failure"),
        ("retry-on conn-failure", "retry-on all-retryable-errors"),
        ("retry-on conn-failure", "retry-on 503 conn-failure"),
        ("retries 3", "option http-server-close"),
        ("option http-buffer-request", "# gone"),
        ("retries 3", "compression algo gzip"),
        ("retries 3", "acl odd path -m reg ^/odd"),
        ("retries 3", "acl odd path_reg ^/odd"),
        ("retries 3", "http-request set-path %[path,regsub(a,b)]"),
    ],
)
def test_line_that_ruins_streams_is_told_with_its_reason(config: str, old: str, new: str) -> None:
    assert old in config
    message = list(problems(config.replace(old, new)))
    assert message
    assert all(": " in line for line in message)


def test_template_that_breaks_a_rule_is_refused_before_any_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = connected(Machine(tmp_path))
    whole = haproxy_config._config

    def spoilt(*given: object) -> bytes:
        return whole(*given).replace(b"option http-no-delay", b"# gone")  # type: ignore[arg-type]

    monkeypatch.setattr(haproxy_config, "_config", spoilt)
    with pytest.raises(RenderError, match=r"http-no-delay.*merged"):
        gateway.desired(node, nominal_layout(node))
