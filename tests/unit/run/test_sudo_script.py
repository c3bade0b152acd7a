"""A command as root by sudo's password: with its own stdin, and the password in no argument."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.run import remote, sudo_script
from b200kit.run.remote import Remote

# As Debian's sudo -S: one line of stdin an attempt; what it is given stands in a file.
_SUDO = """#!/bin/sh
printf '%s\\n' "$*" >> "$ARGUMENTS"
IFS= read -r given; [ "$given" = 'open sesame' ] || exit 1
shift 4; exec "$@"
"""


def run(folder: Path, script: str, stdin: str) -> subprocess.CompletedProcess[str]:
    """Run a script where sudo asks and nobody is root."""
    for name, text in (("sudo", _SUDO), ("id", '#!/bin/sh\n[ "$1" = -u ] && echo 1000\n')):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "ARGUMENTS": str(folder / "said")}
    return subprocess.run(
        ["sh", "-c", script], input=stdin, capture_output=True, text=True, env=environment
    )


def test_command_gets_its_own_input(tmp_path: Path) -> None:
    done = run(tmp_path, sudo_script.asked("sh -c 'cat; exit 7'"), "open sesame\none\ntwo\n")
    assert (done.returncode, done.stdout) == (7, "one\ntwo\n")
    assert "sesame" not in (tmp_path / "said").read_text()


def test_wrong_password_is_tried_once(tmp_path: Path) -> None:
    done = run(tmp_path, sudo_script.asked("true"), "wrong\nopen sesame\n")
    assert (done.returncode, len((tmp_path / "said").read_text().splitlines())) == (77, 1)


@pytest.mark.parametrize("stdin", [None, "a file's content\n"])
def test_a_run_gives_the_password_where_its_inventory_asks_for_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stdin: str | None
) -> None:
    monkeypatch.setattr(remote, "given_password", "open sesame")
    given: dict[str, Any] = {}

    class Output(list[Any]):
        stdout_lines: tuple[str, ...] = ()

    host: Any = SimpleNamespace(
        data={"_sudo": True}, connector=SimpleNamespace(),
        run_shell_command=lambda **asked: (given.update(asked) or True, Output()),
    )  # fmt: skip
    Remote(host, 5).attempt("cat; echo done", stdin)
    words = str(given["command"])
    assert ("sesame" in words, given.get("_sudo")) == (False, None)
    done = run(tmp_path, words, given["_stdin"])
    assert done.stdout == f"{stdin or ''}done\n"
    assert shlex.split(words)[:2] == ["sh", "-c"]
