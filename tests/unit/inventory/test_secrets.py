"""Secrets: what would be sent in plain text, and what no request could carry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory import secrets
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data

TOKEN = {"env": "A_TOKEN"}


@in_subtests(
    "store",
    ["http://10.0.0.9/models", "http://models:8080", "http://[fd00::9]:80/m",
     "http://10.0.0.9:1/m", "http://localhost.example.internal/"],
)  # fmt: skip
def test_token_is_not_sent_in_plain_text(store: str) -> None:
    found = parse(data(model_store=store, hf_token=TOKEN), CATALOGUE)
    assert isinstance(found, list)
    assert [problem.key for problem in found] == ["hf_token"]
    assert_message(found[0].message)


@in_subtests(
    "changes",
    [
        {"model_store": "https://models.example.internal"},
        {"model_store": "http://10.0.0.9/models", "model_store_tls": "off"},
        {"model_store": "http://10.0.0.9/models", "hf_token": None},
        {"model_store": "http://127.0.0.1:8080/models"},
        {"model_store": "http://[::1]/models"},
        {"model_store": "http://localhost"},
        {"model_store": "file:///srv/store"},
    ],
)
def test_token_is_sent_where_nobody_reads_it_or_the_inventory_says_so(
    changes: dict[str, Any],
) -> None:
    assert isinstance(parse(data(**{"hf_token": TOKEN, **changes}), CATALOGUE), NodeSpec)


@pytest.mark.parametrize("value", [b"two words", b"two\nlines", b"a\0b", b"caf\xc3\xa9", b"a\x7f"])
def test_key_that_no_request_can_carry_is_refused(tmp_path: Path, value: bytes) -> None:
    (tmp_path / "key").write_bytes(value)
    ref = {"file": str(tmp_path / "key")}
    client = {"name": "a", "key": ref}
    spec = parse(data(api_key=ref, hf_token=ref, gateway={"clients": [client]}), CATALOGUE)
    assert isinstance(spec, NodeSpec)
    found, problems = secrets.resolve(spec)
    assert found == {}
    assert [p.key for p in problems] == ["api_key", "hf_token", "gateway.clients.0.key"]
    assert {p.message for p in problems} == {"must be one word of printable ASCII characters"}


def test_key_is_any_word_that_a_request_can_carry(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b'a,b=c;"d"#~0123456\n')
    spec = parse(data(api_key={"file": str(tmp_path / "key")}), CATALOGUE)
    assert isinstance(spec, NodeSpec)
    found, problems = secrets.resolve(spec)
    assert problems == []
    assert found["api_key"].reveal() == b'a,b=c;"d"#~0123456'


def test_key_that_is_short_or_is_anothers_is_refused(tmp_path: Path) -> None:
    for name, value in (("long", b"0123456789abcdef"), ("short", b"0123456789abcde")):
        (tmp_path / name).write_bytes(value)
    long, short = ({"file": str(tmp_path / name)} for name in ("long", "short"))
    clients = [{"name": "a", "key": long}, {"name": "b", "key": short}, {"name": "c", "key": long}]
    spec = parse(data(api_key=long, gateway={"clients": clients}), CATALOGUE)
    assert isinstance(spec, NodeSpec)
    _, problems = secrets.resolve(spec)
    said = {p.key: p.message for p in problems}
    assert set(said) == {f"gateway.clients.{number}.key" for number in range(3)}
    assert "at least 16" in said["gateway.clients.1.key"]
    assert "is the key of api_key" in said["gateway.clients.0.key"]
