"""`proof` on a node: signed with its key, one after the other, also after one that was killed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.events import spool
from b200kit.node.lib import boot_clock
from b200kit.node.proof import command, signature
from b200kit.node.proof.document import ProofRules
from b200kit.node.proof.evidence import KINDS
from b200kit.node.state.serving import Serving
from tests.unit.node.proof.test_sources import BANDWIDTH, GATE, LOOK, SMOKE

SERVING: dict[str, Any] = {
    "schema": Serving.schema, "model": "m", "engine": "e", "gateway": "http://127.0.0.1:8000",
    "max_num_seqs": 8, "max_model_len": 4096, "max_num_batched_tokens": 2048,
    "replicas": [
        {"index": n, "url": "http://127.0.0.1:1", "unit": f"vllm@{n}.service", "uuids": [f"G{n}"]}
        for n in (0, 1)
    ],
}  # fmt: skip
RULES = {
    "schema": ProofRules.schema,
    "node": "n01",
    "ttl_s": dict.fromkeys(KINDS, 1e9),
    "required": ["look", "gate", "latency", "answers"],
    "expiring_share": 0.2,
    "clock_step_s": 5,
    "clock_settle_s": 600,
}
Issue = Callable[[], int]


@pytest.fixture
def issue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Issue:
    """Issue a proof of a node in tmp_path on which all is well."""
    boot_id, boot_s = boot_clock.now()
    here = {"boot_id": boot_id, "boot_s": boot_s}
    documents = {
        "watch.json": {**LOOK, "boot_s": boot_s}, "verdict.json": {**GATE, **here},
        "smoke.json": SMOKE, "bandwidth.json": BANDWIDTH, "serving.json": SERVING,
        "rules.json": RULES,
    }  # fmt: skip
    for name, document in documents.items():
        (tmp_path / name).write_text(json.dumps(document))
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    places = {"STATE_DIRECTORY": tmp_path, "LOOK": tmp_path / "watch.json"}
    proof = tmp_path / "proof" / "proof.json"
    places |= {"PROOF": proof, "SIGNATURE": proof.with_name("proof.json.sig")}
    for name, path in places.items():
        monkeypatch.setattr(command, name, path)
    sign = signature.sign
    monkeypatch.setattr(signature, "sign", lambda content: sign(content, key))
    args = ["--rules", str(tmp_path / "rules.json"), "--serving", str(tmp_path / "serving.json")]
    return lambda: command.main(args)


def issued(tmp_path: Path) -> dict[str, Any]:
    """The proof that lies there."""
    found: dict[str, Any] = json.loads((tmp_path / "proof" / "proof.json").read_text())
    return found


def test_proof_is_issued_and_ssh_keygen_alone_verifies_it(issue: Issue, tmp_path: Path) -> None:
    assert issue() == 0
    assert issued(tmp_path)["standing"] == "valid", issued(tmp_path)["why"]
    public = (tmp_path / "key.pub").read_text()
    (tmp_path / "signers").write_text(f'n01 namespaces="b200kit-proof" {public}')
    argv = ["ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "signers"), "-I", "n01"]
    argv += ["-n", "b200kit-proof", "-s", str(tmp_path / "proof" / "proof.json.sig")]
    content = (tmp_path / "proof" / "proof.json").read_bytes()
    assert subprocess.run(argv, input=content, check=False).returncode == 0
    assert subprocess.run(argv, input=content + b" ", check=False).returncode != 0


def test_only_what_runs_in_the_gateway_serves(issue: Issue, tmp_path: Path) -> None:
    issue()
    assert issued(tmp_path)["serving"] == {"replicas": [0, 1], "gpus": 2}
    out = {"schema": "b200kit/watchdog-state/1", "out": True}
    (tmp_path / "watchdog").mkdir()
    (tmp_path / "watchdog" / "vllm1.json").write_text(json.dumps(out))
    issue()
    assert issued(tmp_path)["serving"] == {"replicas": [0], "gpus": 1}


def test_sequence_grows_over_a_run_that_was_killed(
    issue: Issue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue()
    first = issued(tmp_path)["sequence"]
    monkeypatch.setattr(command, "SIGNATURE", tmp_path)
    assert issue() == 1
    monkeypatch.setattr(command, "SIGNATURE", tmp_path / "proof" / "proof.json.sig")
    assert issue() == 0
    assert issued(tmp_path)["sequence"] == first + 2


def test_what_cannot_be_signed_replaces_nothing(
    issue: Issue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issue()
    before = issued(tmp_path)
    (tmp_path / "key").unlink()
    assert issue() == 1
    assert issued(tmp_path) == before
    assert "could not be issued" in capsys.readouterr().err


def test_a_proof_that_is_damaged_is_followed_by_a_higher_one(issue: Issue, tmp_path: Path) -> None:
    issue()
    issue()
    before = issued(tmp_path)["sequence"]
    (tmp_path / "proof" / "proof.json").write_text("{")
    assert issue() == 0
    # Two within one second: in service a look takes longer than that.
    assert issued(tmp_path)["sequence"] >= before - 1


def test_journal_has_a_line_and_the_site_an_event_when_the_standing_changes(
    issue: Issue,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    monkeypatch.setattr(spool, "put", lambda event: events.append(event.kind))
    issue()
    assert capsys.readouterr().err == "proof valid\n"
    issue()
    assert capsys.readouterr().err == ""
    (tmp_path / "smoke.json").write_text(json.dumps({**SMOKE, "verdict": "fail", "reasons": []}))
    issue()
    assert capsys.readouterr().err == "proof expired: latency: fail: verdict fail\n"
    # One look proves no fault.
    assert events == ["proof.valid"]
    issue()
    issue()
    assert events == ["proof.valid", "proof.expired"]
    (tmp_path / "smoke.json").write_text(json.dumps(SMOKE))
    issue()
    assert events == ["proof.valid", "proof.expired", "proof.valid"]


@pytest.mark.parametrize("planned", [{"in_service": False}, {"running": []}])
def test_planned_work_is_no_event_and_what_serves_unproven_after_it_is(
    planned: dict[str, Any], issue: Issue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    monkeypatch.setattr(spool, "put", lambda event: events.append(event.kind))
    look, smoke = tmp_path / "watch.json", tmp_path / "smoke.json"
    serving = look.read_text()
    issue()
    look.write_text(json.dumps(json.loads(serving) | planned))
    smoke.write_text(json.dumps({**SMOKE, "verdict": "fail", "reasons": []}))
    for _ in range(3):
        issue()
    assert issued(tmp_path)["serving"] == {"replicas": [], "gpus": 0}
    assert issued(tmp_path)["standing"] == "expired"
    look.write_text(serving)
    issue()
    assert events == ["proof.valid"]
    smoke.write_text(json.dumps(SMOKE))
    issue()
    assert events == ["proof.valid"]
    smoke.write_text(json.dumps({**SMOKE, "verdict": "fail", "reasons": []}))
    issue()
    issue()
    assert events == ["proof.valid", "proof.expired"]


@pytest.mark.parametrize("rules", ["", "[]", "{}", json.dumps({**RULES, "ttl_s": {"look": 1}})])
def test_bad_rules_are_refused(issue: Issue, tmp_path: Path, rules: str) -> None:
    (tmp_path / "rules.json").write_text(rules)
    assert issue() == 2
    assert not (tmp_path / "proof").exists()
