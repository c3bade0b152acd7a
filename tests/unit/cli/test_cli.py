"""`b200` itself: help, version, what it does not understand, and a reader that leaves."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from b200kit import __version__, cli
from b200kit.catalog import load
from b200kit.cli.command import EXIT_CODES, READER_LEFT, UNWRITABLE, USAGE, NewFolder
from b200kit.cli.reference_pages import help_of, leaves
from tests.subtests import in_subtests
from tests.unit import states

Capture = pytest.CaptureFixture[str]
CONTRIBUTING = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
STATE = str(states.STATES / "healthy-hgx-b200.json")


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_names_every_command(arguments: list[str], capsys: Capture) -> None:
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in cli.COMMANDS)


LEAVES = dict(leaves())


@in_subtests("name", LEAVES)
def test_help_of_a_command_ends_with_its_exit_codes(name: str) -> None:
    # By the command line: a command keeps the help option of the context that asks first.
    assert "Exit codes:\n  0 " in help_of(name.split())
    assert {*LEAVES[name].exit_codes} <= {*EXIT_CODES}  # type: ignore[attr-defined]


def table_of_options() -> dict[str, tuple[str, ...]]:
    """Long name to its short one and its metavar, of the table in CONTRIBUTING.md."""
    found = {}
    for row in re.findall(r"^\| `((?:-\w, )?--[a-z-]+.*?)` \|", CONTRIBUTING, re.MULTILINE):
        *names, last = row.split(", ")
        name, _, metavar = last.partition(" ")
        found[name] = (*names, metavar)
    return found


def words_of_metavars() -> set[str]:
    """What metavars are made of, of the line below that table."""
    [line] = re.findall(r"^Metavars are made of (.+?)\.$", CONTRIBUTING, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`(\w+)`", line))


def params() -> dict[str, click.Parameter]:
    """Every option and argument of every command."""
    return {
        f"{name} {param.opts[-1]}": param
        for name, command in [("", cli.b200), *LEAVES.items()]
        for param in command.params
    }


def shape(param: click.Parameter) -> tuple[str, ...]:
    """Short name and metavar of an option."""
    is_flag = getattr(param, "is_flag", False)
    return (*param.opts[:-1], "" if is_flag else param.metavar or "")


@in_subtests("where", params)
def test_an_option_is_the_same_with_every_command(where: str) -> None:
    param, known = params()[where], table_of_options()
    if isinstance(param, click.Option) and (rule := known.get(param.opts[-1])):
        assert shape(param) == rule
    metavar = param.metavar or ("" if isinstance(param, click.Option) else str(param.name).upper())
    assert {*re.findall(r"[A-Z][A-Z0-9]+", metavar)} <= words_of_metavars()
    assert not re.search(r"\b[Cc]atalogs?\b|\b[Cc]olor\b", getattr(param, "help", None) or "")


def test_a_directory_that_a_command_writes_is_looked_at_before_anything_is_done(
    tmp_path: Path, capsys: Capture
) -> None:
    written = [p for p in params().values() if p.opts[-1] == "--to" and p.metavar == "DIR"]
    assert {type(param.type) for param in written} == {NewFolder}
    (tmp_path / "file").touch()
    assert cli.main(["keys", "debian12", "--to", str(tmp_path / "file" / "keys")]) == USAGE
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_an_option_of_several_commands_is_in_the_table() -> None:
    shapes: dict[str, set[tuple[str, ...]]] = {}
    for param in params().values():
        if isinstance(param, click.Option):
            shapes.setdefault(param.opts[-1], set()).add(shape(param))
    assert {name: found for name, found in shapes.items() if len(found) > 1} == {}
    assert {*table_of_options()} <= {*shapes}


WITHOUT_JSON = {
    # They write files, or for another program.
    *("init", "bundle", "keys", "lock", "monitoring", "targets", "completion"),
    *("proof signers", "record accept", "golden forget", "acceptance sanitise"),
    *("mirror key", "mirror build", "mirror verify", "mirror serve"),
    *("model publish", "model pin"),
}


@in_subtests("name", [name for name in LEAVES if not name.startswith("lab ")])
def test_what_has_a_result_prints_it_as_json(name: str) -> None:
    offered = {option for param in LEAVES[name].params for option in param.opts}
    assert ("--json" in offered) == (name not in WITHOUT_JSON)


def test_version_is_that_of_the_package(capsys: Capture) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"b200 {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["jugde"], "'judge'"),
        (["--hlep"], "'--help'"),
        (["record", "lst"], "'list'"),
        (["judge", "x.json", "--topolgy"], "'--topology'"),
    ],
)
def test_a_typing_error_is_one_line_with_the_word_that_was_meant(
    arguments: list[str], suggestion: str, capsys: Capture
) -> None:
    assert cli.main(arguments) == USAGE
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert suggestion in output.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["judge", STATE, "--hardware", ""],
        ["judge", STATE, "--hardware="],
        ["record", "show", "n01", ""],
    ],
)
def test_an_empty_text_is_no_default(arguments: list[str], capsys: Capture) -> None:
    assert cli.main(arguments) == USAGE
    assert "an empty text" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["\uff16\uff10", "--last=\u0665", "\uff11.5"])
def test_digits_of_another_script_are_no_number(word: str, capsys: Capture) -> None:
    assert cli.main(["record", "compare", "n01", word]) == USAGE
    assert "0 to 9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["proof", "verify", "FILE"], 2),
        (["bundle", "n01", "--state", "FILE"], 2),
        (["judge", "FILE"], USAGE),
        (["smoke", "http://127.0.0.1:1", "--model", "m", "--key-file", "FILE"], USAGE),
    ],
)
def test_a_file_that_is_not_there_is_named_with_the_reason_in_words(
    arguments: list[str], code: int, tmp_path: Path, capsys: Capture
) -> None:
    file = str(tmp_path / "gone")
    assert cli.main([file if word == "FILE" else word for word in arguments]) == code
    said = capsys.readouterr().err
    assert file in said
    assert "No such file or directory" in said
    assert "Errno" not in said
    assert said.count("\n") == 1


def test_what_no_command_foresees_is_a_line_with_path_and_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/data")

    monkeypatch.setattr(load, "load", fail)
    assert cli.main(["models"]) == USAGE
    assert capsys.readouterr().err == "b200 models: /data: Permission denied\n"


def test_mirror_says_who_has_its_port(tmp_path: Path, capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert cli.main(["mirror", "serve", str(tmp_path), "--port", port]) == 1
    assert f"127.0.0.1:{port}" in (said := capsys.readouterr().err)
    assert f"ss -ltnp 'sport = :{port}'" in said
    assert "Errno" not in said


@pytest.mark.parametrize("group", ["audit", "lab", "record"])
def test_a_group_alone_is_its_help(group: str, capsys: Capture) -> None:
    assert cli.main([group]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_all_that_is_wrong_is_named_at_once(capsys: Capture) -> None:
    assert cli.main(["init", "--goal", "fast", "--every"]) == USAGE
    assert cli.main(["plan", "--goal", "fast", "--gpus", "0"]) == USAGE
    line = capsys.readouterr().err.splitlines()[-1]
    assert [word for word in ("MODEL", "--goal", "--gpus") if word not in line] == []


@pytest.mark.parametrize(
    ("color", "environment", "coloured"),
    [("always", "NO_COLOR", True), ("never", "FORCE_COLOR", False), ("auto", "FORCE_COLOR", True)],
)
def test_colour_is_what_the_option_says(
    color: str, environment: str, coloured: bool, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setenv(environment, "1")
    cli.main(["--color", color, "judge", "--example", "gpu2-no-nvlink"])
    assert ("\x1b[" in capsys.readouterr().out) == coloured


def test_commands_are_imported_only_when_they_run() -> None:
    code = (
        "import sys; from b200kit import cli; cli.main(['--help']);"
        "sys.exit(any(f'b200kit.cli.{name}' in sys.modules for name in cli.COMMANDS))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


LIBRARIES = ("asyncio", "cryptography", "gevent", "jinja2", "paramiko", "pydantic", "pyinfra")
"""Those of connections, inventories and pages, each a tenth of a second."""
ASKED_OFFLINE = ("judge", "plan", "watch", "explain", "report", "transaction list", "deploy")
IMPORTS = f"""
import contextlib, io, os, sys
from b200kit import cli
for command in {ASKED_OFFLINE}:
    with contextlib.redirect_stdout(io.StringIO()):
        cli.main([*command.split(), "--help"])
sys.stderr.write(" ".join({{"rich", "yaml", *{LIBRARIES}}} & {{*sys.modules}}))
cli.main(["judge", {STATE!r}])
sys.stderr.write(" ".join({{*{LIBRARIES}}} & {{*sys.modules}}))
"""


def test_offline_questions_import_no_library_of_connections_inventories_and_pages() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "144/144 links" in done.stdout  # what waited was there when it was used


def test_a_reader_that_leaves_costs_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    state = str(states.STATES / "healthy-hgx-b200.json")
    with os.fdopen(writer, "wb") as gone:
        run = subprocess.run(
            [sys.executable, "-m", "b200kit.cli", "judge", state, "--json"],
            stdout=gone, stderr=subprocess.PIPE,
        )  # fmt: skip
    assert (run.returncode, run.stderr) == (READER_LEFT, b"")


@pytest.mark.parametrize(("redirected", "why"), [
    (">/dev/full", "No space left on device"), (">&-", "Bad file descriptor"),
])  # fmt: skip
@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["judge", str(states.STATES / "healthy-hgx-b200.json")], "<stdout> cannot be written"),
        (["judge", "--help"], "its output cannot be written"),
    ],
    ids=["ours", "click's"],
)
def test_an_answer_that_cannot_be_written_is_no_answer(
    arguments: list[str], what: str, redirected: str, why: str
) -> None:
    run = in_shell(arguments, redirected)
    assert run.returncode == UNWRITABLE
    assert run.stderr.decode().splitlines() == [f"b200 judge: {what}: {why}"]


@pytest.mark.parametrize(("arguments", "code"), [
    (["judge", "--example", "gpu2-no-nvlink"], 1), (["judge", "--nope"], USAGE),
])  # fmt: skip
def test_a_code_is_the_same_where_nobody_hears_of_errors(arguments: list[str], code: int) -> None:
    assert in_shell(arguments, "2>&-").returncode == code


def in_shell(arguments: list[str], redirected: str) -> subprocess.CompletedProcess[bytes]:
    """The command with its output sent elsewhere, or closed, by a shell."""
    script = f'exec "$0" -m b200kit.cli "$@" {redirected}'
    return subprocess.run(["sh", "-c", script, sys.executable, *arguments], capture_output=True)
