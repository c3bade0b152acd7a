"""The evidence: every part or why not, of bounded size, and never a secret."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib.redact import REDACTED, Redactor
from b200kit.node.maintenance import support_bundle
from b200kit.node.maintenance.support_bundle import Read
from tests.messages import assert_message, raises_message

KEY = b"canary-0123456789/abc+def"


@pytest.fixture
def redactor() -> Redactor:
    """Of a node with a secret."""
    return Redactor([KEY])


def missing() -> str:
    """A part that is not to be had."""
    raise OSError("nvidia-bug-report.sh is not on this node")


def test_part_that_cannot_be_had_says_why(redactor: Redactor) -> None:
    contents, entries = support_bundle.take({"a.txt": lambda: "seen", "b.txt": missing}, redactor)
    assert contents == {"a.txt": b"seen"}
    assert entries["a.txt"] == {"bytes": 4, "sha256": hashlib.sha256(b"seen").hexdigest()}
    assert_message(entries["b.txt"]["unmeasured"])


def test_long_part_keeps_its_end_and_says_so(
    redactor: Redactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support_bundle, "PART_BYTES", 10)
    contents, entries = support_bundle.take({"log": lambda: "a" * 20 + "the end"}, redactor)
    assert contents["log"] == b"aaathe end"
    assert entries["log"]["cut_bytes"] == 17


def test_packed_report_is_searched_too(redactor: Redactor) -> None:
    contents, _ = support_bundle.take({"r.log.gz": lambda: b"key: " + KEY}, redactor)
    assert gzip.decompress(contents["r.log.gz"]) == b"key: " + REDACTED.encode()


@pytest.fixture
def reporter(tmp_path: Path) -> Path:
    """NVIDIA's program, as far as it is used."""
    path = tmp_path / "nvidia-bug-report.sh"
    path.write_text('#!/bin/sh\n[ "$1" = --safe-mode ] && echo "report $*" | gzip > "$3.log.gz"\n')
    path.chmod(0o755)
    return path


def test_report_is_made_in_safe_mode_where_its_program_is(reporter: Path) -> None:
    assert support_bundle.report(str(reporter)).startswith(b"report --safe-mode --output-file ")


def test_report_that_is_not_written_is_said(reporter: Path) -> None:
    reporter.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(OSError, match="wrote nothing"):
        support_bundle.report(str(reporter))
    with raises_message(OSError):
        support_bundle.report(str(reporter.with_name("nowhere")))


def test_command_that_fails_tells_its_last_line() -> None:
    with raises_message(OSError):
        support_bundle.output(["sh", "-c", "echo no such unit >&2; exit 3"])
    # One that fails and prints something still has output.
    assert support_bundle.output(["sh", "-c", "echo seen; exit 3"]) == "seen\n"


def taken(monkeypatch: pytest.MonkeyPatch, capfd: Any, redactor: Redactor, *args: str) -> list[str]:
    """What the command prints, of a node with two parts."""
    reads: dict[str, Read] = {"a.txt": lambda: "x" * 99_999 + KEY.decode(), "b.txt": missing}
    monkeypatch.setattr(support_bundle, "parts", lambda: reads)
    monkeypatch.setattr(support_bundle, "claim_stdout", lambda: os.dup(1))
    monkeypatch.setattr(Redactor, "of_this_node", lambda: redactor)
    assert support_bundle.main(list(args)) == 0
    return str(capfd.readouterr().out).splitlines()


def test_archive_is_as_its_manifest_says(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], redactor: Redactor
) -> None:
    why = f"the key is {KEY.decode()}"
    *body, last = taken(monkeypatch, capfd, redactor, "--why", why)
    content, text = base64.b64decode("".join(body)), json.loads(last)
    assert text["sha256"] == hashlib.sha256(content).hexdigest()
    assert KEY not in gzip.decompress(content)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        files = {m.name: archive.extractfile(m) for m in archive.getmembers()}
        contents = {name: file.read() for name, file in files.items() if file}
    manifest = json.loads(contents.pop("evidence/manifest.json"))
    assert manifest["schema"] == "b200kit/evidence/1"
    assert manifest["parts"] == text["parts"]
    assert [*contents] == ["evidence/a.txt"]
    assert (
        hashlib.sha256(contents["evidence/a.txt"]).hexdigest() == text["parts"]["a.txt"]["sha256"]
    )


def test_archive_may_stay_on_the_node(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    redactor: Redactor,
    tmp_path: Path,
) -> None:
    path = tmp_path / "evidence.tar.gz"
    [line] = taken(monkeypatch, capfd, redactor, "--to", str(path))
    assert json.loads(line)["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_node_whose_secrets_cannot_be_read_hands_nothing_over(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def unreadable() -> Redactor:
        raise PermissionError(13, "Permission denied", "/etc/b200kit/secrets/api_key")

    monkeypatch.setattr(support_bundle, "claim_stdout", lambda: os.dup(1))
    monkeypatch.setattr(Redactor, "of_this_node", unreadable)
    assert support_bundle.main([]) == 1
    seen = capfd.readouterr()
    assert seen.out == ""
    assert_message(seen.err)


def test_every_part_the_issue_asks_for_is_taken() -> None:
    names = set(support_bundle.parts())
    assert {"state.json", "kernel.log", "xids.json", "journal.log", "packages.txt"} <= names
    assert {"notes/smoke.json", "nvidia-bug-report.sh.log.gz"} <= names
    assert not any("secret" in name for name in names)


def test_archive_leaves_out_its_largest_parts_until_a_reader_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(support_bundle, "PACKED_BYTES", 4096)
    contents = {"small": os.urandom(100), "large": os.urandom(5000), "larger": os.urandom(9000)}
    entries = {name: support_bundle.described(content) for name, content in contents.items()}
    packed = support_bundle.fitted(contents, entries, {})
    assert len(packed) <= 4096
    assert list(contents) == ["small"]
    assert_message(*(entries[name]["unmeasured"] for name in ("large", "larger")))


def test_archive_of_all_parts_at_their_largest_is_one_that_a_reader_unpacks() -> None:
    parts = len(support_bundle.parts()) + 1
    most = parts * support_bundle.PART_BYTES + support_bundle.REPORT_BYTES
    assert most < support_bundle.UNPACKED_BYTES
