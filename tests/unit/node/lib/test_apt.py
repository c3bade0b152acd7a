"""One way to call apt; last week's list never stands in for one that it cannot have."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.node.lib.apt import UPDATE, Apt, AptFailed, of_list


def test_repository_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    """By apt itself, whose own habit is a warning, exit status 0 and the lists it had."""
    lists = tmp_path / "lists"
    (lists / "partial").mkdir(parents=True)
    # Nothing listens on the discard port, and no retry makes it.
    (tmp_path / "one.list").write_text("deb [trusted=yes] http://127.0.0.1:9/ ./\n")
    (tmp_path / "apt.conf").write_text(
        f'Dir::State::lists "{lists}";\nDir::Cache "{tmp_path}";\n'
        'Acquire::Retries::Delay "false";\n'
    )
    one = of_list(str(tmp_path / "one.list"))
    apt = Apt(one.settings, {"APT_CONFIG": str(tmp_path / "apt.conf")}, 300)
    with pytest.raises(AptFailed, match=r"127\.0\.0\.1:9"):
        apt.said("apt-get", *UPDATE)


def test_every_program_has_the_same_options_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("apt-get", "apt-mark", "dpkg"):
        (tmp_path / name).write_text('#!/bin/sh\necho "$DEBIAN_FRONTEND $NEEDRESTART_SUSPEND $*"\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    apt = of_list("/etc/apt/one.sources")
    for name in ("apt-get", "apt-mark"):
        [line] = apt.said(name, "act")
        assert line.startswith("noninteractive 1 -o DPkg::Lock::Timeout=300 ")
        assert "-o Dir::Etc::sourcelist=/etc/apt/one.sources" in line
        assert line.endswith(" act")
    assert apt.said("dpkg", "-C") == ["noninteractive 1 --force-confold -C"]
    assert "Dir::Etc" not in Apt().said("apt-get", "act")[0]
