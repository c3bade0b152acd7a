"""From the inventory to rules, and from the kernel's listing back to the same lines."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory import firewall as openings
from b200kit.inventory.keys.parts import Firewall
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.facts import nft_rules
from b200kit.run.render import render
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data

DATA = Path(__file__).parents[3] / "data"
LISTED = json.loads((DATA / "nft-1.0.6-table.json").read_text())
ASKED = {
    "networks": {"clients": ["10.0.0.0/24", "2001:db8::/32"]},
    "allow": [
        {"port": 8000, "from": ["clients", "10.1.1.1/32"]},
        {"port": 9100, "from": ["any"]},
        {"port": 161, "protocol": "udp", "from": ["fd00::5"]},
    ],
}


def asked(raw: dict[str, Any]) -> Firewall:
    """The firewall of an inventory."""
    spec = parse(data(firewall=raw), CATALOGUE)
    assert isinstance(spec, NodeSpec), spec
    assert spec.firewall is not None
    return spec.firewall


def problems(raw: dict[str, Any], **changes: Any) -> list[str]:
    """What is said against a firewall, with its key."""
    found = parse(data(firewall=raw, **changes), CATALOGUE)
    return [f"{p.key}: {p.message}" for p in found] if isinstance(found, list) else []


def lines(*ports: int) -> list[str]:
    """The lines of the whole example."""
    return nft_rules.lines(openings.entries(asked(ASKED)), ports or (22,))


def script(rules: list[str]) -> str:
    """The script a node is given."""
    return render("host/firewall.nft.j2", table=nft_rules.TABLE, rules=rules[1:]).decode()


def test_script_is_the_one_that_was_read_over() -> None:
    assert script(lines(22, 2222)) == (DATA / "firewall.nft").read_text()


def test_what_the_kernel_lists_is_what_was_asked() -> None:
    assert nft_rules.listed(LISTED) == lines(22, 2222)


def test_kernel_of_this_machine_lists_what_it_was_given(tmp_path: Path) -> None:
    if not shutil.which("nft") or subprocess.run(["unshare", "-n", "true"], check=False).returncode:
        pytest.skip("needs nft and a network namespace of its own; tests/e2e has both")
    (tmp_path / "rules").write_text(script(lines(22, 2222)))
    load = f"nft -f {tmp_path}/rules && nft -f {tmp_path}/rules && nft -j list table inet b200kit"
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", load], capture_output=True, text=True, check=True
    )
    assert nft_rules.listed(json.loads(done.stdout)) == lines(22, 2222)


def test_ssh_stays_open_with_nothing_allowed() -> None:
    rules = nft_rules.lines([], [22])
    assert 'tcp dport 22 accept comment "ssh"' in rules
    assert nft_rules.ports_of_ssh(rules) == [22]


def test_other_tables_are_never_named() -> None:
    names = [line for line in script(lines()).splitlines() if line.startswith(("table", "delete"))]
    assert names == [
        "table inet b200kit",
        "delete table inet b200kit",
        "table inet b200kit {",
    ]


@in_subtests(
    ("was", "became"),
    [
        ('"policy": "drop"', '"policy": "accept"'),
        ('"len": 24', '"len": 8'),
        ('"right": 9100', '"right": 9101'),
        ('"comment": "ssh", ', ""),
        ('"established", "related"', '"established", "related", "new"'),
    ],
)
def test_a_change_by_hand_is_another_line(was: str, became: str) -> None:
    text = json.dumps(LISTED)
    assert was in text
    assert nft_rules.listed(json.loads(text.replace(was, became))) != lines(22, 2222)


def test_what_we_never_write_is_told_whole() -> None:
    odd: dict[str, Any] = {
        "nftables": [
            {"metainfo": {}},
            {"set": {"name": "s"}},
            {"rule": {"chain": "forward", "expr": [{"log": {"prefix": "x"}}, {"drop": None}]}},
            {
                "rule": {
                    "chain": "input",
                    "expr": [
                        {
                            "match": {
                                "op": "!=",
                                "left": {"payload": {"protocol": "tcp", "field": "dport"}},
                                "right": 22,
                            }
                        }
                    ],
                }
            },
        ]
    }
    message = nft_rules.listed(odd)
    assert message[0] == 'set {"name": "s"}'
    assert message[1] == 'in forward: {"log": {"prefix": "x"}} drop'
    assert '"op": "!="' in message[2]


@in_subtests(
    "raw",
    [
        {"allow": [{"port": 1, "from": ["10.0.0.5/24"]}]},
        {"networks": {"lan": ["10.0.0.0/8"]}, "allow": [{"port": 1, "from": ["lam"]}]},
        {"networks": {"lan": ["nowhere"]}},
        {"allow": [{"port": 1, "from": []}]},
        {"allow": [{"port": 1, "from": ["any", "10.0.0.1"]}]},
        {"allow": [{"port": 1}]},
        {"allow": [{"port": 70000, "from": ["any"]}]},
        {"alow": []},
    ],
)
def test_what_cannot_be_is_refused(raw: dict[str, Any]) -> None:
    [problem] = problems(raw)
    assert_message(problem)


def test_gateway_that_nobody_could_reach_is_refused() -> None:
    shut = {"allow": [{"port": 9100, "from": ["any"]}]}
    plain = {"tls": "off", "authentication": "off"}
    [problem] = problems(shut, gateway_bind="0.0.0.0", gateway=plain)
    assert_message(problem)
    assert problems(shut, gateway_bind="127.0.0.1") == []
    opened = {"allow": [{"port": 8000, "from": ["any"]}]}
    assert problems(opened, gateway_bind="::", gateway=plain) == []
