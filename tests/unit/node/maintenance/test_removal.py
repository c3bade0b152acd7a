"""What is put on a node is noted, and taken back with what was there before; twice is once."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import system
from b200kit.node.lib import apt_output, installed, put_files
from b200kit.node.lib.apt import Apt
from b200kit.node.maintenance import removal
from b200kit.node.maintenance.removal import KeptParts

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The list lies below tmp_path; what is called of the node's tools."""
    called: list[str] = []
    state = tmp_path / "state"
    for name, path in (("STATE", state), ("LIST", state / "list"), ("ORIGINALS", state / "kept")):
        monkeypatch.setattr(installed, name, path)
    monkeypatch.setattr(installed, "_NOT_NOTED", ("/run/",))
    monkeypatch.setattr(installed.read, "__defaults__", (state / "list",))
    monkeypatch.setattr(removal, "FOLDERS", (str(tmp_path / "own*"),))
    monkeypatch.setattr(removal, "_do", lambda *words: called.append(" ".join(words)))
    monkeypatch.setattr(removal, "_said", lambda *words: "")
    monkeypatch.setattr(system, "listing", lambda: "")

    def said(apt: Apt, *words: str) -> list[str]:
        called.append(" ".join(words))
        return []

    monkeypatch.setattr(Apt, "said", said)
    return called


def put(monkeypatch: pytest.MonkeyPatch, files: dict[Path, bytes], **more: Any) -> None:
    """Files as the controller puts them."""
    owner = f"{Path.cwd().owner()}:{Path.cwd().group()}"
    rows = [
        {"path": str(path), "content": base64.b64encode(content).decode(), "mode": 0o644,
         "owner": owner, **more}
        for path, content in files.items()
    ]  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"files": rows})))
    assert put_files.main([]) == 0


def test_what_was_there_comes_back_and_the_rest_goes(
    tools: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours, kept = tmp_path / "haproxy.cfg", tmp_path / "made/deep/x", tmp_path / "mount"
    theirs.write_text("theirs")
    theirs.chmod(0o600)
    for content in (b"first", b"second"):
        put(monkeypatch, {theirs: content, ours: content, kept: content})
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").touch()
    found = removal.plan(KeptParts(files=(str(kept),)))
    assert (found.files, found.put_back) == ((str(ours),), (str(theirs),))
    for part in [*removal.PARTS.values(), *removal.PARTS.values()]:
        part(KeptParts(files=(str(kept),)))
    assert (theirs.read_text(), theirs.stat().st_mode & 0o777) == ("theirs", 0o600)
    assert {path.name for path in tmp_path.iterdir()} == {"haproxy.cfg", "mount"}
    assert removal.plan(KeptParts()) == removal.RemovalPlan()


def test_a_run_that_was_killed_is_finished_by_the_next(
    tools: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.write_text("theirs")
    put(monkeypatch, {theirs: b"x", ours: b"x"}, notify=["update-grub", "reboot"])

    def killed(*words: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(removal, "_do", killed)
        with pytest.raises(KeyboardInterrupt):
            removal.files(KeptParts())
    assert (theirs.read_text(), ours.exists()) == ("theirs", False)
    assert removal.plan(KeptParts()).at_boot
    removal.files(KeptParts())
    assert theirs.read_text() == "theirs"
    assert "sh -c update-grub" in tools


def test_kernel_values_are_kept_as_they_were(
    tools: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enabled = tmp_path / "enabled"
    enabled.write_text("always [madvise] never\n")
    lines = f"w {enabled} - - - - never\n"
    monkeypatch.setattr(installed, "_TMPFILES", f"{tmp_path}/")
    for value in (lines, f"# other\n{lines}"):
        put(monkeypatch, {tmp_path / "t.conf": value.encode()})
        enabled.write_text("always madvise [never]\n")
    removal.files(KeptParts())
    assert enabled.read_text() == "madvise"


def test_packages_that_others_need_stay(tools: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    needs: dict[str, set[str]] = {"haproxy": set(), "numactl": {"theirs"}, "driver": set()}
    there = "".join(f"{name}\t1\tii \n" for name in needs)
    monkeypatch.setattr(system, "listing", lambda: there)
    monkeypatch.setattr(
        removal, "_taken_along",
        lambda names: {*names}.union(*(needs[name] for name in names)),
    )  # fmt: skip
    installed.note_packages(["haproxy", "numactl=2"], ["haproxy", "numactl", "gone"])
    installed.note_packages(["driver=580"], ["driver"])
    kept = removal.plan(KeptParts(packages=("driver",)))
    assert (kept.packages, kept.stays) == (("haproxy",), ("numactl",))

    def said(*words: str) -> str:
        tools.append(" ".join(words))
        listed = "/lib/systemd/system/haproxy.service\n/lib/systemd/system/haproxy@.service\n"
        return listed if words[0] == "dpkg-query" else ""

    # Whatever the package's own scripts do, nothing of it runs or is enabled afterwards.
    monkeypatch.setattr(removal, "_said", said)
    removal.packages(KeptParts(packages=("driver",)))
    stopped = "systemctl disable --now --quiet haproxy.service"
    assert [word for word in tools if "haproxy" in word][1:] == [
        stopped, "apt-get -y --allow-change-held-packages purge haproxy",
    ]  # fmt: skip


def test_apt_says_what_is_new() -> None:
    lines = ["Inst a (1 Debian [amd64])", "Inst b:amd64 (2 x)", "Inst c [1] (2 x)", "Conf a (1)"]
    assert apt_output.new(lines) == ["a", "b"]
