"""Events on a node: what is laid down for them, and that nothing is where nobody is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from b200kit.inventory.secrets import Secret
from b200kit.operations import named_files
from b200kit.stages import events
from tests.unit.nodes import look, make, planned, settled, spec

CONFIG = "/etc/b200kit/events.json"
COMMAND = {"command": ["/usr/local/bin/notify"]}


def test_without_a_sink_there_is_neither_file_nor_unit(tmp_path: Path) -> None:
    _, machine = settled(tmp_path)
    assert not [path for path in machine.files if "events" in path]
    unit = machine.text("/etc/systemd/system/b200-watch.service")
    assert "b200kit/events" not in unit


def test_a_command_is_told_by_a_unit_that_waits_for_events(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, events=COMMAND)
    assert machine.is_active(events.SPOOL)
    document = json.loads(machine.text(CONFIG))
    assert (document["node"], document["command"]) == (node.name, COMMAND["command"])
    assert planned(node, "events") == []
    unit = machine.text("/etc/systemd/system/b200-watch.service")
    assert "StateDirectory=b200kit/events\n" in unit


@pytest.mark.parametrize("url", ["https://h/a-path", {"env": "URL"}])
def test_a_webhook_has_its_secrets_as_credentials_and_its_authority_in_a_file(
    url: object, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text("an authority")
    hook = {"url": url, "key": {"env": "K"}, "ca_file": f"{tmp_path}/ca.pem"}
    command = ["/usr/bin/notify", "a-word"]
    node, machine = settled(tmp_path, events={"webhook": hook, "command": command})
    node.secrets["events.webhook.key"] = Secret(b"a-key")
    if not isinstance(url, str):
        node.secrets["events.webhook.url"] = Secret(b"https://h/a-path")
    make(node, "events")
    look(node)
    assert planned(node, "events") == []
    assert machine.text(events.AUTHORITY) == "an authority"
    unit = machine.text(f"/etc/systemd/system/{events.UNIT}")
    assert f"LoadCredential=events_key:{events.KEY}\n" in unit
    assert f"LoadCredential=events_url:{events.URL}\n" in unit
    texts = {
        path: machine.text(path) for path in machine.files if path.startswith(("/etc/", "/var/"))
    }
    for word, place in (("a-key", events.KEY), ("a-path", events.URL), ("a-word", CONFIG)):
        assert [path for path, text in texts.items() if word in text] == [place]
        assert machine.files[place]["mode"] == 0o600


def test_who_is_not_to_be_told_any_more_is_not(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, events=COMMAND)
    object.__setattr__(node, "spec", node.spec.replace(events=None))
    assert any("events.json" in what for what in planned(node, "events"))
    make(node, "events")
    look(node)
    assert planned(node, "events") == []
    assert not [path for path in machine.files if "events" in path]
    assert machine.ran(f"disable --now {events.SPOOL}")


def test_an_authority_that_cannot_be_read_is_refused_before_anything(tmp_path: Path) -> None:
    hook = {"url": "https://h/", "ca_file": f"{tmp_path}/none.pem"}
    found = list(named_files.missing(spec(tmp_path, events={"webhook": hook})))
    assert [problem.key for problem in found] == ["events.webhook.ca_file"]
