"""`b200 bundle`: the same verdict, and nothing of the site."""

from __future__ import annotations

import io
import json
import stat
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit import cli
from b200kit.cli.command import USAGE
from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import structure
from b200kit.node.state.verdict import Verdict
from b200kit.records import archive
from b200kit.records.pseudonyms import Pseudonyms
from tests.subtests import in_subtests
from tests.unit import corpus, states
from tests.unit.case import Case


def told(verdict: Verdict) -> list[tuple[str, ...]]:
    """What a verdict says: each finding's check, status, action, and subject."""
    return [
        (one.check, one.status.value, one.action.word, one.subject, *one.subjects)
        for one in verdict.findings
    ]


def bundled(state: dict[str, Any], expectation: dict[str, Any]) -> tuple[Verdict, str]:
    """The verdict over what a bundle holds, and the text of it."""
    found = archive.sanitise(state, expectation, ["n01"])
    text = json.dumps([found.state, found.expectation])
    return judge(found.expectation, found.state), text


@in_subtests("case", corpus.cases, ids=lambda case: case.id, one_in=30)
def test_every_case_is_judged_as_before(case: Case) -> None:
    verdict, _ = bundled(case.state(), case.expectation())
    before = corpus.verdict_of(case.name)
    assert verdict.fit == before.fit
    assert told(verdict) == told(before)


@pytest.mark.parametrize("name", states.NAMES)
def test_an_archive_is_judged_as_its_recorded_state(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, source = tmp_path / "b.tar.gz", states.file(name, tmp_path)
    made = cli.main(["bundle", name, "--state", source, "--output", str(target)])
    capsys.readouterr()
    verdicts = []
    for judged in (source, str(target)):
        cli.main(["judge", judged, "--json"])
        verdicts.append(structure(Verdict, json.loads(capsys.readouterr().out)["verdict"]))
    assert made == 0
    assert told(verdicts[0]) == told(verdicts[1])
    assert "hgx-b200" not in _text(target, "state.json")


def _text(path: Path, name: str) -> str:
    with tarfile.open(path) as tar:
        return (tar.extractfile(name) or pytest.fail(name)).read().decode()


CANARY = "zqxcanary"
TEXTS = (
    f"{CANARY}", f"{CANARY.upper()}_1", f"/srv/{CANARY}/x", f"{CANARY}7.acme.zqxdomain.net",
    "10.11.12.13", "fe80::1234:56ff:fe78:9abc", "aa:bb:cc:12:34:56", "a088:c203:00ab:cdef",
    "550E8400-E29B-41D4-A716-446655440000", "hunter2", "1650999000001", "wJalrXUtnFEMIK7MDENG",
)  # fmt: skip


def planted(value: Any) -> Any:
    """A document with every canary in each text that has room for it, keys of maps not."""
    if isinstance(value, dict):
        return {key: planted(below) for key, below in value.items()}
    if isinstance(value, list):
        return [planted(entry) for entry in value]
    return f"{value} {' '.join(TEXTS)}" if isinstance(value, str) else value


def unread(value: Any) -> Any:
    """A document in which no reading could be taken, for a reason with every canary."""
    if isinstance(value, dict) and value:
        return {key: unread(below) for key, below in value.items()}
    if isinstance(value, list) and value:
        return [unread(entry) for entry in value]
    return {"unmeasured": " ".join(TEXTS)}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", states.NAMES)
@pytest.mark.parametrize("plant", [planted, unread])
def test_no_canary_of_any_text_leaves(name: str, plant: Callable[[Any], Any]) -> None:
    state = states.recorded(name)
    found = archive.sanitise(plant(state), plant(states.expectation()), ["n01"])
    text = json.dumps([found.state, found.expectation]).lower()
    assert [canary for canary in TEXTS if canary.lower() in text] == []


SITE = {
    "hostname": "Rack7-N1", "machine_id": "8c1f0a" + "d" * 26,
    "boot_id": "550e8400-e29b-41d4-a716-446655440000",
    "product_uuid": "4c4c4544-0042-3510-8052-b4c04f564433", "product_serial": "J4X-9QZ.3",
}  # fmt: skip


def test_no_identity_leaves_in_any_form() -> None:
    state = states.healthy()
    state["host"].update(SITE)
    state["gpus"][0]["serial"] = "SN-77-ABCD"
    forms = (
        "RACK7-N1",
        "rack7-n1.dc.example.com",
        "x_Rack7-N1_1",
        "/var/rack7-n1/log",
        "Rack7-N10",
    )
    state["xids"] = [{"pci_address": "0000:8f:00.0", "code": 1, "text": " ".join(
        [*forms, *SITE.values(), "SN-77-ABCD", state["gpus"][3]["uuid"]])}]  # fmt: skip
    found = archive.sanitise(state, states.expectation())
    text = json.dumps(found.state).lower()
    for value in (*SITE.values(), "SN-77-ABCD", "rack7"):
        assert value.lower() not in text
    log = found.state["xids"][0]["text"]
    assert found.state["gpus"][0]["serial"] in log
    assert found.state["host"]["product_serial"] in log
    assert found.state["host"]["boot_id"] in log
    assert found.state["gpus"][3]["uuid"] in log


def test_an_unknown_field_is_dropped() -> None:
    state = states.healthy()
    state["secrets"] = state["host"]["token"] = "nvidia"
    found = archive.sanitise(state, None)
    assert "secrets" not in found.state
    assert "token" not in found.state["host"]


def test_what_was_equal_stays_equal_and_what_was_not_does_not() -> None:
    words = [f"{a}{b}x" for a in "qwz" for b in "abcdefghijklmnopqrstuvwxyz"]
    names = Pseudonyms(b"k", frozenset(), ())
    made = [names.text(word) for word in words]
    assert made == [names.text(word) for word in words]
    assert len(set(made)) == len(words)
    assert names.text("QAX") == made[0].upper()


def test_another_bundle_has_other_pseudonyms() -> None:
    one, two = (archive.sanitise(states.healthy(), None).state["gpus"] for _ in range(2))
    assert one[0]["serial"] != two[0]["serial"]


def test_an_archive_is_private_and_replaces_nothing(tmp_path: Path) -> None:
    target = tmp_path / "b.tar.gz"
    source = states.file("healthy-single-b200", tmp_path)
    arguments = ["bundle", "n", "--state", source, "--output", str(target)]
    assert cli.main(arguments) == 0
    before = target.read_bytes()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert cli.main(arguments) == 2
    assert target.read_bytes() == before


def packed(
    name: str, text: bytes, headers: dict[str, str] | None = None, kind: bytes = tarfile.REGTYPE
) -> bytes:
    """An archive with one file that packs small; a link is one to itself."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo(name)
        entry.size, entry.pax_headers = len(text), headers or {}
        entry.type, entry.linkname = kind, name
        tar.addfile(entry, io.BytesIO(text))
    return made.getvalue()


@in_subtests(
    "content",
    [
        packed("state.json", b"[" + b"[],[]," * 10_000_000 + b"[]]"),
        packed("state.json", b"{}", {"comment": "0" * 60_000_000}),
        packed("state.json", b"[" * 100_000),
        packed("other.json", b"{}"),
        packed("state.json", b"", {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 30)}),
        packed("state.json", b"", kind=tarfile.SYMTYPE),
    ],
)
def test_an_archive_that_unpacks_to_too_much_is_refused_before(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(content)
    tracemalloc.start()
    assert cli.main(["judge", str(path)]) == USAGE
    assert tracemalloc.get_traced_memory()[1] < 1 << 29
    tracemalloc.stop()
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("content", [b"\x1f\x8b", b"\x1f\x8bxxxx", b"\x1f\x8b" + b"\0" * 50])
def test_a_broken_archive_is_one_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(content)
    assert cli.main(["judge", str(path)]) == USAGE
    assert capsys.readouterr().err.count("\n") == 1
