"""`b200 proof`: what a node signed is believed while it holds, and nothing else is."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit import cli
from b200kit.cli.command import USAGE
from b200kit.node.agent.evidence import Now, issue
from b200kit.node.lib import signature
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.agent import AgentState
from b200kit.node.state.proof import KINDS, NodeProof, ProofEvidence, ProofRules, ServingNow, stamp
from b200kit.run.places import SITE
from b200kit.store.database import VARIABLE

BOOT, DIGEST = "4f0c3b6e-0f5b", "5c5e" * 16
RULES = ProofRules("n01", dict.fromkeys(KINDS, 120.0), ["health"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Keys of n01 and n02, pinned."""
    lines = []
    for node, name in (("n01", "n01"), ("n02", "[10.0.0.2]:2222")):
        key = tmp_path / node
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        lines.append(f"{name} {key.with_suffix('.pub').read_text()}")
    (tmp_path / "known_hosts").write_text("".join(lines))
    return tmp_path


def proof_of(node: str = "n01", age_s: float = 0.0, sequence: int = 41) -> NodeProof:
    """A valid proof, issued so many seconds ago."""
    now = Now(BOOT, 1000.0, time.time() - age_s)
    look = ProofEvidence("health", "pass", "", DIGEST, BOOT, stamp(now.wall_s))
    made = issue(None, [look], ServingNow((0, 1), 8), now, replace(RULES, node=node))
    return replace(made, sequence=sequence)


def file_of(proof: object) -> dict[str, Any]:
    """The agent's file with a proof."""
    state = AgentState("n01", "1", BOOT, 1000.0, "then", {"0": 4, "1": 4}, 60.0)
    document = unstructure(proof) if isinstance(proof, NodeProof) else proof
    return {**unstructure(state), "proof": document}


def signed(folder: Path, proof: object, by: str = "n01") -> Path:
    """The agent's files, signed by a node."""
    file = folder / "agent.json"
    file.write_text(json.dumps(file_of(proof)))
    file.with_name("agent.json.sig").write_bytes(signature.sign(file.read_bytes(), folder / by))
    return file


def verify(folder: Path, file: Path, *more: str) -> int:
    """The exit code."""
    hosts = str(folder / "known_hosts")
    return cli.main(["proof", "verify", str(file), "--known-hosts", hosts, *more])


def test_a_proof_is_verified_as_often_as_it_is_shown(folder: Path) -> None:
    file = signed(folder, proof_of())
    assert verify(folder, file) == 0
    assert verify(folder, file) == 0
    assert verify(folder, file, "--node", "n02") == 1


def refusal(folder: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of a refusal."""
    assert verify(folder, file) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    return said.err


def test_forged_content_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = signed(folder, proof_of())
    file.write_text(file.read_text().replace('"gpus": 8', '"gpus": 9'))
    assert "not signed by n01" in refusal(folder, file, capsys)


def test_a_proof_that_another_node_signed_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = signed(folder, proof_of("n01"), by="n02")
    assert "not signed by n01" in refusal(folder, file, capsys)


def test_a_signature_for_something_else_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as other:
        other.setattr(signature, "NAMESPACE", "file")
        file = signed(folder, proof_of())
    assert "not signed by n01" in refusal(folder, file, capsys)


def test_what_ran_out_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = signed(folder, proof_of(age_s=125))
    assert "expired" in refusal(folder, file, capsys)


def test_what_the_node_itself_calls_expired_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = proof_of()
    failed = replace(made.evidence[0], result="fail", why="GPU 3 is off NVLink")
    late = replace(made, evidence=(failed,))
    assert "calls it expired: health: fail" in refusal(folder, signed(folder, late), capsys)


def test_what_was_issued_in_the_future_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = signed(folder, proof_of(age_s=-60))
    assert "in the future" in refusal(folder, file, capsys)


def test_an_old_proof_shown_again_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(folder, signed(folder, proof_of(sequence=42))) == 0
    capsys.readouterr()
    old = signed(folder, proof_of(sequence=41))
    assert "replayed" in refusal(folder, old, capsys)
    twin = signed(folder, proof_of(sequence=42, age_s=9))
    assert "another proof" in refusal(folder, twin, capsys)


def test_a_node_with_a_new_key_is_not_held_to_what_the_old_one_signed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The clock of the image before was a year ahead; with the new one the key is another.
    assert verify(folder, signed(folder, proof_of(sequence=10**15))) == 0
    old, hosts = (folder / name for name in ("n01.pub", "known_hosts"))
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "new"], check=True
    )
    new = (folder / "new.pub").read_text()
    hosts.write_text(hosts.read_text().replace(old.read_text(), new))
    assert verify(folder, signed(folder, proof_of(sequence=42), by="new")) == 0
    # Of each key the highest is known: neither what the new one signed before, nor the old one.
    capsys.readouterr()
    earlier = signed(folder, proof_of(sequence=41), by="new")
    assert "replayed" in refusal(folder, earlier, capsys)
    hosts.write_text(hosts.read_text() + f"n01 {old.read_text()}")
    of_old = signed(folder, proof_of(sequence=43))
    assert "replayed" in refusal(folder, of_old, capsys)


def test_what_is_refused_is_not_noted_as_seen(folder: Path) -> None:
    assert verify(folder, signed(folder, proof_of(sequence=99), by="n02")) == 1
    assert verify(folder, signed(folder, proof_of(sequence=41))) == 0


def test_proof_of_another_schema_or_none_is_told_apart(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = signed(folder, {**unstructure(proof_of()), "schema": "b200kit/proof/1"})
    assert verify(folder, file) == 2
    assert "b200kit/proof/2" in capsys.readouterr().err
    sound = unstructure(proof_of())
    for key, wrong in (
        ("issued_at", "2026-02-30T00:00:00Z"),
        *(("evidence", [{**sound["evidence"][0], "ttl_s": ttl}]) for ttl in (-1, 5e9)),
    ):
        assert verify(folder, signed(folder, {**sound, key: wrong})) == 2
        assert ": proof." in capsys.readouterr().err
    assert "no proof" in refusal(folder, signed(folder, None), capsys)


@pytest.mark.parametrize("gone", ["agent.json", "agent.json.sig", "known_hosts"])
def test_what_cannot_be_read_is_no_refusal(folder: Path, gone: str) -> None:
    file = signed(folder, proof_of())
    (folder / gone).unlink()
    assert verify(folder, file) == 2


def test_file_of_any_size_is_read_no_further_than_one_of_ours_is_long(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = signed(folder, proof_of())
    for name in ("known_hosts", "agent.json.sig", "agent.json"):
        (folder / name).unlink()
        (folder / name).symlink_to("/dev/zero")
        assert verify(folder, file) == 2
        assert f"{folder / name}: File too large" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"node": "n01"}'])
def test_damaged_file_is_one_that_cannot_be_read(
    folder: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    file = signed(folder, proof_of())
    file.write_bytes(content)
    assert verify(folder, file) == 2
    assert capsys.readouterr().err.startswith(f"b200 proof: {file}: ")


def test_outside_a_site_the_options_that_stand_for_it_are_enough_and_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for name in (SITE, VARIABLE):
        monkeypatch.delenv(name, raising=False)
    file = signed(folder, proof_of())
    assert verify(folder, file, "--store", str(folder / "b200.db")) == 0
    capsys.readouterr()
    assert verify(folder, file) == USAGE
    assert "--store" in capsys.readouterr().err
    for code, hosts in ((2, folder / "none"), (1, folder / "n02.pub")):
        assert cli.main(["proof", "verify", str(file), "--known-hosts", str(hosts)]) == code
        said = capsys.readouterr().err
        assert str(hosts) in said
        assert "--known-hosts" in said


def test_a_node_is_found_by_its_name_among_the_pinned_keys(folder: Path) -> None:
    file = signed(folder, proof_of("n02"), by="n02")
    assert verify(folder, file) == 1
    named = ("--name", "[10.0.0.2]:2222")
    assert verify(folder, file, *named, "--node", "n02") == 0
    # Else any key that is pinned would prove whatever node its holder writes down.
    assert verify(folder, file, *named) == 64
    assert verify(folder, file, *named, "--node", "n01") == 1


def test_ssh_keygen_alone_verifies_by_the_signers_that_are_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = ("--known-hosts", str(folder / "known_hosts"))
    assert cli.main(["proof", "signers", "n01", "n02=[10.0.0.2]:2222", *hosts]) == 0
    (folder / "signers").write_text(capsys.readouterr().out)
    for node, code in (("n01", True), ("n02", False)):
        content = signed(folder, proof_of()).read_bytes()
        argv = ["ssh-keygen", "-Y", "verify", "-f", str(folder / "signers"), "-I", node]
        argv += ["-n", "b200kit-proof", "-s", str(folder / "agent.json.sig")]
        done = subprocess.run(argv, input=content, check=False, capture_output=True)
        assert (done.returncode == 0) is code


# But for the first two, the name is pinned; what is called so there is no node.
@pytest.mark.parametrize(
    "node", ["n03", "", "*=n01", "n01,n02=n01", "../n01=n01", "n01\u200b=n01", "-n01=n01", "=n01"]
)
def test_signers_of_a_node_that_is_not_pinned_are_not_printed(folder: Path, node: str) -> None:
    hosts = ("--known-hosts", str(folder / "known_hosts"))
    assert cli.main(["proof", "signers", node, *hosts]) in (2, USAGE)
