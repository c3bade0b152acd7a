"""CDI in a daemon.json that belongs to somebody else: two keys change, or nothing does."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import docker
from b200kit.node.host import docker_cdi
from tests.subtests import in_subtests

OWN: dict[str, Any] = {
    "log-opts": {"max-size": "10m"},
    "features": {"containerd-snapshotter": True},
    "labels": ["rack=7"],
}


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A daemon.json, where docker accepts all but what names a rack 13."""
    path = tmp_path / "etc/daemon.json"
    path.parent.mkdir()
    monkeypatch.setattr(docker, "CONFIG", path)
    monkeypatch.setattr(docker_cdi, "BACKUP", tmp_path / "backup/daemon.json")
    program = tmp_path / "dockerd"
    program.write_text('#!/bin/sh\n! grep -q rack=13 "$1" || { echo "no rack 13" >&2; exit 1; }\n')
    program.chmod(0o755)
    monkeypatch.setattr(docker_cdi, "_CHECK", (str(program),))
    return path


def test_other_keys_stay_and_the_owners_version_is_kept_once(file: Path) -> None:
    text = json.dumps(OWN, indent=2)
    file.write_text(text)
    file.chmod(0o640)
    assert docker_cdi.switch_on(file) == ["features.cdi"]
    features = {"containerd-snapshotter": True, "cdi": True}
    assert json.loads(file.read_text()) == {**OWN, "features": features}
    assert list(json.loads(file.read_text())) == list(OWN)
    assert '\n  "log-opts"' in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert docker_cdi.switch_on(file) == []
    file.write_text("{}")
    docker_cdi.switch_on(file)
    assert docker_cdi.BACKUP.read_text() == text


@in_subtests("text", [None, "", " \n", "{}"])
def test_file_that_is_not_there_or_empty_is_written(file: Path, text: str | None) -> None:
    file.unlink(missing_ok=True)
    if text is not None:
        file.write_text(text)
    assert docker_cdi.main([]) == 0
    assert json.loads(file.read_text()) == {"features": {"cdi": True}}


def test_directories_that_the_owner_names_get_what_is_missing(file: Path) -> None:
    file.write_text(json.dumps({"cdi-spec-dirs": ["/opt/cdi", "/etc/cdi"]}))
    assert docker_cdi.switch_on(file) == ["features.cdi", "cdi-spec-dirs"]
    assert json.loads(file.read_text())["cdi-spec-dirs"] == ["/opt/cdi", "/etc/cdi", "/var/run/cdi"]


@in_subtests(
    "text",
    [
        '{"a": 1', "[]", '{"a": 1, "a": 2}', "[" * 100_000, '{"features": []}',
        '{"cdi-spec-dirs": "x"}', '{"labels": ["rack=13"]}', "\udcff",
    ],
)  # fmt: skip
def test_what_is_odd_stays_as_it_is_with_one_line(
    file: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    file.write_bytes(raw)
    capsys.readouterr()
    assert docker_cdi.main([]) == 1
    said = capsys.readouterr().err
    assert (said.count("\n"), "nothing was changed" in said) == (1, True)
    assert file.read_bytes() == raw
    assert not docker_cdi.BACKUP.exists()


def test_link_is_not_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("{}")
    os.symlink(tmp_path / "elsewhere", file)
    assert docker_cdi.main([]) == 1
    assert (tmp_path / "elsewhere").read_text() == "{}"
