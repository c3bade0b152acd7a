"""CDI in containerd's configuration: only CDI changes, or nothing does.

The stand-in for containerd dumps what real ones of 1.7 and 2.x do of the settings that matter here:
it merges imports as 1.7 does, a section at a time. tests/e2e/test_containers.py asks a real one.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from b200kit.node.facts import containers
from b200kit.node.host import containerd_cdi
from b200kit.node.lib import user_file

Run = Callable[[], tuple[int, str, str]]
TOOL = Path(__file__).parents[1] / "tools" / "containerd.py"
DEBIAN = """\
version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.internal.v1.opt"]
    path = "/var/lib/containerd/opt"
"""
"""As Debian 13's containerd package has it."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where containerd's configuration is; containerd itself is a stand-in of version 1.7."""
    program = tmp_path / "bin" / "containerd"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {TOOL} "$@"\n')
    program.chmod(0o755)
    config = tmp_path / "etc" / "config.toml"
    config.parent.mkdir()
    for module in (containerd_cdi, containers):
        monkeypatch.setattr(module, "PATH", str(program.parent))
    monkeypatch.setattr(containers, "CONTAINERD_CONFIG", config)
    monkeypatch.setattr(user_file, "BACKUPS", tmp_path / "backup")
    monkeypatch.setattr(shutil, "chown", lambda *_: None)
    return config


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command as the controller does."""
    document = json.dumps({"markers": [str(path.parent.parent / "marker")]})

    def switched() -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(document))
        code = containerd_cdi.main([])
        said = capsys.readouterr()
        return code, said.out, said.err

    return switched


def enabled() -> object:
    """What the reading says now."""
    reading = containers.containerd()
    assert reading is not None
    return reading["config"]


ON = {"cdi": True, "spec_dirs": ["/etc/cdi", "/var/run/cdi"]}


def test_cdi_goes_into_the_section_that_is_there_and_nothing_else_changes(
    path: Path, run: Run
) -> None:
    path.write_text(DEBIAN)
    assert enabled() == {**ON, "cdi": False}
    assert run() == (0, '{"changed": ["enable_cdi"]}\n', "")
    added = [line for line in path.read_text().splitlines() if line not in DEBIAN.splitlines()]
    assert [line.strip() for line in added] == ["enable_cdi = true"]
    assert path.read_text().replace(f"{added[0]}\n", "") == DEBIAN
    assert enabled() == ON
    assert run() == (0, '{"changed": []}\n', "")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "text",
    [
        "version = 2\n",
        'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\n  bin_dir = "/opt/cni"\n',
        "version = 2\n[plugins.'io.containerd.grpc.v1.cri'] # mine\nenable_cdi = false\n",
        'version = 3\n[plugins."io.containerd.cri.v1.runtime"]\nenable_cdi = false\n',
        'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\ncdi_spec_dirs = ["/opt/cdi"]\n',
    ],
)
def test_every_way_to_write_the_section_is_understood(path: Path, run: Run, text: str) -> None:
    path.write_text(text)
    assert run()[0] == 0
    config = enabled()
    assert isinstance(config, dict)
    assert config["cdi"] is True
    assert "/var/run/cdi" in config["spec_dirs"]
    assert ("/opt/cdi" in config["spec_dirs"]) is ("/opt/cdi" in text)


def test_no_file_gets_one_of_containerds_own_version(path: Path, run: Run) -> None:
    assert run()[0] == 0
    assert path.read_text().startswith("version = 2\n")
    assert enabled() == ON


SECTION = '[plugins."io.containerd.grpc.v1.cri"]'
REFUSED = {
    "malformed": ("[plugins", "containerd refuses it: "),
    "disabled": (
        'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n',
        "disables the CRI plugin",
    ),
    "version 1": ("[plugins.cri]\n", "its format is version 1"),
    "no version": ("", "its format is version 1"),
    "dotted": (
        'version = 2\nplugins."io.containerd.grpc.v1.cri".enable_cdi = false\n',
        f"refuses what it would become; set enable_cdi = true in {SECTION}",
    ),
    "import wins": (
        f'version = 2\nimports = ["other.toml"]\n{SECTION}\n',
        f"set enable_cdi = true in {SECTION} where that is defined",
    ),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_done_by_itself_is_one_line_and_changes_nothing(
    path: Path, run: Run, text: str, says: str
) -> None:
    other = path.with_name("other.toml")
    other.write_text('version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = false\n')
    path.write_text(text)
    code, out, err = run()
    assert (code, out) == (1, "")
    assert err.startswith(f"b200kit: {path}: ")
    assert says in err
    assert err.count("\n") == 1
    assert path.read_text() == text
    assert {entry.name for entry in path.parent.iterdir()} == {"config.toml", "other.toml"}
    assert not (path.parent.parent / "marker").exists()


def test_a_drop_in_file_would_have_lost_the_owners_section(path: Path) -> None:
    """Why there is none: as containerd 1.7.24 merges, measured."""
    drop_in = path.with_name("99.toml")
    drop_in.write_text('version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true\n')
    own = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "mine"\n'
    program = str(path.parents[1] / "bin" / "containerd")
    path.write_text(own)
    assert 'sandbox_image = "mine"' in containers.dump(program)
    path.write_text(f'imports = ["99.toml"]\n{own}')
    assert "mine" not in containers.dump(program)


def test_a_containerd_that_refuses_its_file_is_unmeasured_with_its_words(path: Path) -> None:
    path.write_text("[plugins")
    config = enabled()
    assert isinstance(config, dict)
    assert "containerd exited 1" in config["unmeasured"]


def test_a_node_without_containerd_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "PATH", "/nowhere")
    assert containers.containerd() is None
    assert containers.podman() is None
