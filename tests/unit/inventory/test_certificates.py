"""Certificates that an inventory names: refused where none holds, named where not for long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from b200kit.inventory import certificates
from b200kit.inventory.spec import NodeSpec
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action
from b200kit.node.state.view import StateView
from b200kit.operations import preflight
from b200kit.operations.observe import observe_request
from b200kit.readiness import expected
from b200kit.readiness.checks import CHECKS
from b200kit.run.node import Node
from b200kit.stages import serving
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import nodes
from tests.unit.certificates import lasting, pem

NOW = datetime.now(UTC)
YEAR = lasting(NOW, days=365)
KEYS = (
    "gateway.certificate",
    *("fleet.ca_file", "bmc.ca_file"),
)
BMC = {"address": "https://10.0.0.7", "user": "b200", "password": {"env": "BMC"}}


def naming(folder: Path, **texts: bytes) -> NodeSpec:
    """A spec that names a file for each of its keys: with a certificate of a year, or this text."""
    paths = {key: str(folder / key) for key in KEYS}
    for key, path in paths.items():
        Path(path).write_bytes(texts.get(key, YEAR))
    gateway, fleet, bmc = paths.values()
    sections: dict[str, Any] = {
        "api_key": None,
        "hf_token": None,
        "gateway": {"certificate": {"file": gateway}},
        "fleet": {"port": 8443, "ca_file": fleet, "nodes": [{"name": "n1", "address": "10.0.0.1"}]},
        "bmc": {**BMC, "ca_file": bmc},
    }
    return nodes.spec(folder, **sections)


def refused(spec: NodeSpec) -> tuple[Node, list[str]]:
    """The node, and the keys that a run refuses it for before the first connection."""
    node, problems = preflight._checked("n01", spec)
    return node, [problem.key for problem in problems]


def test_certificates_that_hold_for_long_are_no_matter(tmp_path: Path) -> None:
    node, keys = refused(naming(tmp_path))
    assert keys == []
    assert certificates.warnings(node.spec, node.secrets) == []


@in_subtests("key", KEYS)
def test_each_is_refused_when_it_does_not_hold_and_named_before_it_ends(
    tmp_path: Path, key: str
) -> None:
    for text in (
        lasting(NOW, days=-1),
        pem(NOW + timedelta(days=1), NOW + timedelta(days=365)),
        b"hello",
    ):
        assert refused(naming(tmp_path, **{key: text}))[1] == [key]
    node, keys = refused(naming(tmp_path, **{key: lasting(NOW, days=29)}))
    assert keys == []
    (line,) = certificates.warnings(node.spec, node.secrets)
    assert line.startswith(f"{key}: {tmp_path / key} ends on ")


def test_a_refusal_names_file_and_date(tmp_path: Path) -> None:
    made = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    _, problems = preflight._checked("n01", naming(tmp_path, **{KEYS[0]: pem(*made)}))
    assert_message(*(problem.message.replace(str(tmp_path), "/site") for problem in problems))


def test_an_old_authority_beside_its_successor_is_no_fault(tmp_path: Path) -> None:
    two = lasting(NOW, days=-1) + YEAR
    assert refused(naming(tmp_path, **{"fleet.ca_file": two}))[1] == []
    assert refused(naming(tmp_path, **{"gateway.certificate": two}))[1] == ["gateway.certificate"]


def test_what_ends_soon_is_a_note_of_ready(tmp_path: Path) -> None:
    for text, actions in ((YEAR, [Action.NONE]), (lasting(NOW, days=3), [Action.MONITOR])):
        node, _ = refused(naming(tmp_path, **{KEYS[0]: text}))
        ready = {"ready": expected.expected(node, serves=False)}
        found = [*CHECKS["ready.certificates"](Expectation(ready), StateView({}))]
        assert [(one.action, one.blocks) for one in found] == [(a, False) for a in actions]


def test_those_that_lie_on_the_node_are_judged_there(tmp_path: Path) -> None:
    node, _ = refused(naming(tmp_path))
    assert serving.expected(node)["certificates"] == {
        "/etc/haproxy/b200kit.crt": "chain",
        "/etc/haproxy/b200kit-nodes.crt": "authorities",
    }
    none = Node("n01", node.spec.replace(gateway=nodes.spec(tmp_path).gateway, fleet=None))
    assert "certificates" not in serving.expected(none)
    bare = Node("n01", nodes.spec(tmp_path))
    assert "certificates" not in serving.expected(bare)
    for one in (node, none, bare):
        asked, judged = observe_request(one), serving.expected(one)
        assert asked.get("certificates") == judged.get("certificates")
