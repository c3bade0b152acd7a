"""The Vagrantfile is valid for both providers; Vagrant itself says so."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.driving import ROOT

# It boots nothing, but installs Vagrant, which takes minutes.
pytestmark = [pytest.mark.lab, pytest.mark.long]


def validate(root: Path) -> tuple[bool, str]:
    """Whether `make vagrant-validate` is content with a checkout, and what it says."""
    done = subprocess.run(
        [root / ".ci/vagrant", "validate"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
        check=False,
    )
    return done.returncode == 0, done.stdout + done.stderr


def checkout(tmp_path: Path, text: str) -> Path:
    """A checkout with another Vagrantfile."""
    (tmp_path / ".ci").mkdir(parents=True)
    shutil.copy2(ROOT / ".ci/vagrant", tmp_path / ".ci/vagrant")
    (tmp_path / "Vagrantfile").write_text(text, encoding="utf-8")
    return tmp_path


def test_vagrantfile_is_valid_for_both_providers() -> None:
    valid, said = validate(ROOT)
    assert valid, said
    for provider in ("libvirt", "virtualbox"):
        assert f"{provider}: Vagrantfile validated successfully." in said, said


def test_setting_that_does_not_exist_is_found(tmp_path: Path) -> None:
    text = (ROOT / "Vagrantfile").read_text(encoding="utf-8")
    for provider in ("libvirt", "virtualbox"):
        wrong = text.replace(f"{provider}.memory = ", f"{provider}.memroy = ")
        assert wrong != text
        valid, said = validate(checkout(tmp_path / provider, wrong))
        assert not valid
        assert "memroy" in said
