"""The acts on a node: what they send it, what they keep, and what they say when it goes wrong."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.keys.levels import Level
from b200kit.operations import reboot
from b200kit.reprovision.actions import ActionFailed, evidence, quarantine
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.steps import ACTIONS
from b200kit.run.node import Node
from b200kit.stages import serving_units
from tests.fake.machine import Machine
from tests.messages import TOOK, assert_message, raises_message
from tests.unit.nodes import bare

INTENT = IntentLine(
    step="action", id="20261121-1", why="GPU 2's driver asks for a reset", boot_id="b1"
)


def said(line: str) -> None:
    """For nobody."""


@pytest.fixture
def here(tmp_path: Path) -> tuple[Node, Machine]:
    """A node and its machine."""
    return bare(tmp_path)


def test_quarantine_quotes_what_a_shell_would_read(here: tuple[Node, Machine]) -> None:
    node, machine = here
    machine.answers = {"node.pyz quarantine": (True, "quarantined by x")}
    assert quarantine.put(node, "alice@ops", "it's `down`; $HOME") == "quarantined by x"
    assert machine.log[-1] == (
        "node.pyz quarantine put --who alice@ops --why 'it'\"'\"'s `down`; $HOME'"
    )
    assert node.state is None
    quarantine.admit(node, "alice@ops")
    quarantine.lift(node, "alice@ops")
    assert machine.log[-2:] == [
        "node.pyz quarantine admit --who alice@ops --for 10800",
        "node.pyz quarantine release --who alice@ops",
    ]


def test_quarantine_that_cannot_be_written_is_one_line(here: tuple[Node, Machine]) -> None:
    node, machine = here
    machine.answers = {"node.pyz quarantine": (False, "quarantine put: No space left on device")}
    with raises_message(ActionFailed):
        quarantine.put(node, "alice@ops", "why")


def test_close_ends_the_trial_then_stops_all_that_serves_and_the_gate_last(
    here: tuple[Node, Machine],
) -> None:
    node, machine = here
    machine.answers = {"node.pyz quarantine": (True, ""), "systemctl stop": (True, "")}
    quarantine.close(node)
    assert machine.log[-2] == "node.pyz quarantine shut"
    names = machine.log[-1].partition("for u in ")[2].partition(";")[0].split()
    assert names == [*serving_units.units(node), "b200-gate.service"]
    machine.answers["systemctl stop"] = (False, "Job for haproxy.service failed")
    with raises_message(ActionFailed):
        quarantine.close(node)


def packed(parts: dict[str, bytes], lie: str = "") -> tuple[bytes, str]:
    """An archive as the node makes it, and what it prints; *lie* names a part of another digest."""
    entries: dict[str, Any] = {
        name: {
            "bytes": len(c),
            "sha256": hashlib.sha256(c + name.encode() * (name == lie)).hexdigest(),
        }
        for name, c in parts.items()
    }
    entries["nvidia-bug-report.sh.log.gz"] = {"unmeasured": "it is not on this node"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        manifest = json.dumps({"parts": entries}).encode()
        for name, content in {"manifest.json": manifest, **parts}.items():
            entry = tarfile.TarInfo(f"evidence/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    content = out.getvalue()
    body = base64.b64encode(content).decode()
    lines = [body[i : i + 64] for i in range(0, len(body), 64)]
    message = {"sha256": hashlib.sha256(content).hexdigest(), "parts": entries}
    return content, "\n".join([*lines, json.dumps(message)])


def printed_as(content: bytes) -> str:
    """What a node prints that hands these bytes over as its archive."""
    message = {"sha256": hashlib.sha256(content).hexdigest()}
    return f"{base64.b64encode(content).decode()}\n{json.dumps(message)}"


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """An archive of these members, as they are."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as whole:
        for entry, content in members:
            entry.size = len(content)
            whole.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def named(name: str, **fields: Any) -> tarfile.TarInfo:
    """A member of this name."""
    entry = tarfile.TarInfo(f"evidence/{name}")
    for key, value in fields.items():
        setattr(entry, key, value)
    return entry


MANIFEST = b'{"parts": {}}'
HOLLOW = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 40)}
HOSTILE = {
    "unpacks to far more": lambda: archive(
        (named("manifest.json"), MANIFEST), (named("a"), bytes(200 << 20))
    ),
    "a file of 1 TB, none of it there": lambda: archive((named("a", pax_headers=HOLLOW), b"")),
    "no end of files": lambda: archive(*((named(f"{n}"), b"") for n in range(200))),
    "one file twice": lambda: archive(
        (named("manifest.json"), MANIFEST), (named("a"), b""), (named("a"), b"")
    ),
    "a link": lambda: archive((named("a", type=tarfile.SYMTYPE, linkname="/etc/passwd"), b"")),
    "parts that are no mapping": lambda: archive((named("manifest.json"), b'{"parts": [1]}')),
    "a manifest nested too deeply": lambda: archive((named("manifest.json"), b"[" * 100_000)),
    "cut short": lambda: archive((named("a"), bytes(4096)))[:-20],
    "no archive": lambda: gzip.compress(b"text"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archive_is_refused_and_costs_little_memory(
    here: tuple[Node, Machine], folder: Path, kind: str
) -> None:
    node, machine = here
    machine.answers = {"node.pyz support-bundle": (True, printed_as(HOSTILE[kind]()))}
    tracemalloc.start()
    try:
        with raises_message(ActionFailed):
            evidence.collect(node, INTENT, said)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert not list(folder.rglob("*.tar.gz"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where evidence is kept."""
    path = tmp_path / "evidence"
    monkeypatch.setenv(evidence.VARIABLE, str(path))
    return path


def test_evidence_is_checked_kept_for_its_owner_and_fetched_once(
    here: tuple[Node, Machine], folder: Path
) -> None:
    node, machine = here
    content, printed = packed({"state.json": b"{}"})
    machine.answers = {"node.pyz support-bundle": (True, printed)}
    message: list[str] = []
    found = evidence.collect(node, INTENT, message.append)
    path = Path(found.path)
    assert path == folder / "n01" / "20261121-1.tar.gz"
    assert path.read_bytes() == content
    assert found.sha256 == hashlib.sha256(content).hexdigest()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "without 1 parts" in message[0]
    assert evidence.collect(node, INTENT, message.append) == found
    assert len(machine.ran("node.pyz support-bundle")) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((False, "bundle: No space left on device"), "No space left"),
        ((True, ""), "the answer is no archive"),
        ((True, "no archive at all"), "the answer is no archive"),
        ((True, packed({"a": b"1"})[1].replace("H4sI", "H4sJ", 1)), "damaged on its way"),
        ((True, packed({"a": b"1"}, lie="a")[1]), "a is not as its manifest says"),
    ],
)
def test_evidence_that_is_not_whole_is_refused_and_not_kept(
    here: tuple[Node, Machine], folder: Path, answer: tuple[bool, str], why: str
) -> None:
    node, machine = here
    machine.answers = {"node.pyz support-bundle": answer}
    with raises_message(ActionFailed):
        evidence.collect(node, INTENT, said)
    assert not list(folder.rglob("*.tar.gz"))


def test_evidence_that_cannot_be_kept_is_one_line(here: tuple[Node, Machine], folder: Path) -> None:
    node, machine = here
    machine.answers = {"node.pyz support-bundle": (True, packed({"a": b"1"})[1])}
    folder.write_text("a file where the directory should be")
    with raises_message(ActionFailed):
        evidence.collect(node, INTENT, said)


@pytest.mark.parametrize(
    ("level", "how"), [(Level.RESET_GPUS, "reset"), (Level.RESTART_SERVICES, "restart")]
)
def test_daemons_are_seen_to_by_the_node_under_the_acts_id(
    here: tuple[Node, Machine], level: Level, how: str
) -> None:
    node, machine = here
    machine.answers = {f"gpu-daemons {how}": (True, "ok"), "gpu-daemons show": (True, "{}")}
    act = ACTIONS[level]
    assert act.probe(node, INTENT) is None
    assert act.perform(node, INTENT, said) == "ok"
    [ran] = machine.ran(f"gpu-daemons {how}")
    limit = getattr(node.spec.reprovision.deadlines, level.key)
    assert f"gpu-daemons {how} --act 20261121-1 --deadline {limit}" in ran
    assert node.state is None


def test_daemons_that_were_seen_to_are_told_by_the_nodes_note(here: tuple[Node, Machine]) -> None:
    node, machine = here
    act = ACTIONS[Level.RESET_GPUS]
    done = {"step": "done", "at": "2026-11-21T09:40:00Z", "output": "all GPUs reset"}
    machine.answers = {"gpu-daemons show": (True, json.dumps(done))}
    assert_message(act.probe(node, INTENT))
    machine.answers = {"gpu-daemons show": (True, json.dumps({**done, "step": "resetting"}))}
    assert act.probe(node, INTENT) is None
    machine.answers = {"gpu-daemons show": (False, "python3: not found")}
    with raises_message(ActionFailed):
        act.probe(node, INTENT)
    for none in ("[]", '{"step": "done"}', "[" * 100_000):
        machine.answers = {"gpu-daemons show": (True, none)}
        with pytest.raises(ActionFailed):
            act.probe(node, INTENT)


def test_reset_that_is_refused_is_one_line_with_who_holds_the_gpu(
    here: tuple[Node, Machine],
) -> None:
    node, machine = here
    held = "gpu-daemons: no GPU was reset, for they are in use: pid 41 python of jupyter.service"
    machine.answers = {"gpu-daemons reset": (False, held), "gpu-daemons show": (True, "{}")}
    with raises_message(ActionFailed):
        ACTIONS[Level.RESET_GPUS].perform(node, INTENT, said)


def test_reboot_is_done_once_and_known_by_its_boot(
    here: tuple[Node, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    node, machine = here
    monkeypatch.setattr(reboot, "_POLL_S", 0.0)
    monkeypatch.setattr("b200kit.run.remote.Remote.reconnect", lambda remote: None)
    act = ACTIONS[Level.REBOOT]
    intent = replace(INTENT, **act.facts(node))
    assert act.probe(node, intent) is None
    assert_message(act.perform(node, intent, said), TOOK=TOOK)
    assert machine.boots == 2
    assert_message(str(act.probe(node, intent)))
