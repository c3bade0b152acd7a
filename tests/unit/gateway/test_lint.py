"""What our HAProxy configuration must say and must not, whoever edits its template.

Each rule names what goes wrong without it; the figures are measurements with a 20 ms mock
(HAProxy 2.6.12, 16 streams).
"""

from __future__ import annotations

import re

from b200kit.inventory.keys.gateway import Gateway
from b200kit.serving.gateway import haproxy_config

# Only what no server can have begun: it was never sent, or refused for its key, or by a server that
# is full or has no replica: 503, where an engine means only that by it (`refuses_by_503`).
_SAFE_RETRIES = {"conn-failure", "401", "503"}
_NEEDED = {
    "option http-no-delay": "chunks of a stream are merged: TTFT 194 ms instead of 22",
    "option http-buffer-request": (
        "a request in two packets, as from most clients, is not repeated after a 401"
    ),
    "option redispatch 1": "a replica that died is tried again instead of another",
    "balance leastconn|balance roundrobin": "requests queue behind long ones",
    "option httpchk GET \\S+": "a replica that hangs at its start is sent requests",
    "acl served path .+": "every route of the engine is open to clients",
    "http-request deny deny_status 403 .*unless served": "every route of the engine is open",
    "timeout client [0-9]+s": "sockets that are silent in the TLS handshake shut the gateway",
    "tcp-request connection reject if { sc1_conn_cur gt [0-9]+ }": (
        "one source takes all connections"
    ),
    "timeout http-request .+": "half a request holds a connection for ever",
    "load-server-state-from-file global": "a reload puts a drained replica back",
    "stats socket \\S+ mode 600 .*": "others than root drain replicas",
}
_FORBIDDEN = {
    "option http-server-close": "a connection is made for every request: P99 of TTFT 137 ms",
    "option httpclose": "a connection is made for every request",
    "compression .*": "chunks are held back to be compressed",
    ".*(-m reg|_reg\\b|\\bregsub\\b).*": (
        "it is compiled to machine code, which the unit's MemoryDenyWriteExecute= forbids: HAProxy "
        "neither starts nor reloads"
    ),
    "option forceclose": "streams are cut",
    "retry-on .*(empty-response|response-timeout|all-retryable-errors|50[0-24-9]).*": (
        "a request that ends its server is sent to the next one"
    ),
}


def broken(config: str) -> list[str]:
    """The rules that a configuration breaks."""
    lines = [" ".join(line.split()) for line in config.splitlines()]
    found = {line for line in lines if line and not line.startswith("#")}
    gone = [p for p in _NEEDED if not any(re.fullmatch(p, line) for line in found)]
    wrong = [line for line in found for p in _FORBIDDEN if re.fullmatch(p, line)]
    retries = [line.split()[1:] for line in found if line.startswith("retry-on ")]
    return [*gone, *wrong, *(word for words in retries for word in {*words} - _SAFE_RETRIES)]


def test_rendered_configuration_breaks_no_rule() -> None:
    servers = [haproxy_config.BackendServer("vllm0", "127.0.0.1:8001")]
    endpoint = haproxy_config.GatewayEndpoint("endpoint", "127.0.0.1", 8000, "replicas", servers)
    assert not broken(haproxy_config.files(Gateway(), [endpoint], {})[0].content.decode())
