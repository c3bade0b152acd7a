"""Inventory section events: what tells nobody, or nobody safely, is refused."""

from __future__ import annotations

from typing import Any

from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data

HOOK = {"url": "https://alerts.example.com/b200"}


@in_subtests(
    ("events", "keys"),
    [
        ({}, ["events"]),
        ({"deadline_s": 5}, ["events"]),
        ({"command": ["notify"]}, ["events.command"]),
        ({"webhook": {"url": "http://alerts.example.com/"}}, ["events.webhook.url"]),
        ({"webhook": {"url": "https://user:word@alerts.example.com/"}}, ["events.webhook.url"]),
        ({"webhook": {"url": {"env": "URL"}}}, []),
        ({"webhook": {"url": {}}}, ["events.webhook.url"]),
        ({"webhook": {"url": {"environment": "URL"}}}, ["events.webhook.url.environment"]),
        ({"webhook": {"url": 7}}, ["events.webhook.url"]),
        ({"webhook": {**HOOK, "key": {}}}, ["events.webhook.key"]),
        ({"webhook": HOOK, "kept": 1}, ["events.kept"]),
        ({"webhook": {**HOOK, "key": {"env": "K"}, "ca_file": "ca.pem"}}, []),
        ({"command": ["/usr/local/bin/notify", "--node"]}, []),
    ],
)
def test_who_is_told(events: dict[str, Any], keys: list[str]) -> None:
    found = parse(data(events=events), CATALOGUE)
    refused = [] if isinstance(found, NodeSpec) else found
    assert [problem.key for problem in refused] == keys
    # What is wrong with a URL that may be a secret is told without it.
    assert "alerts" not in "".join(problem.message for problem in refused)
