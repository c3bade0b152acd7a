"""What the controller writes to a terminal: nothing that a node says drives it."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b200kit.node.lib.readings import printable
from b200kit.report.terminal.lines import Lines
from b200kit.run import console

HOSTILE = "n1\x1b[2J\x9b31m\r\nn2  LIVE\u2028n3\u202eevil\x00\x7f\ud800\xad"


def test_what_is_not_printed_as_itself_is_an_escape() -> None:
    assert printable("GPU 2: 4 °C \u2014 ok") == "GPU 2: 4 °C \u2014 ok"
    shown = printable(HOSTILE)
    assert shown == r"n1\x1b[2J\x9b31m\r\nn2  LIVE\u2028n3\u202eevil\x00\x7f\ud800\xad"


@given(st.text(st.characters()))
def test_any_text_is_one_line_that_can_be_printed(text: str) -> None:
    for stream, write in ((redirect_stdout, console.out), (redirect_stderr, console.err)):
        with stream(io.StringIO()) as printed:
            write(text, f"b{text}")
        lines = printed.getvalue().split("\n")
        assert len(lines) == 3
        assert all(line.isprintable() for line in lines)
        printed.getvalue().encode()


@given(st.text(st.characters()))
def test_any_document_is_json_of_printable_characters(text: str) -> None:
    with redirect_stdout(io.StringIO()) as printed:
        console.document({text: [text]})
    assert printed.getvalue().replace("\n", "").isprintable()
    assert json.loads(printed.getvalue()) == {text: [text]}


def red(text: str) -> str:
    """What is bad, in colour."""
    page = Lines(colour=True)
    page.line((text, "bad"))
    return page.found[0]


def test_only_our_colours_stay_and_only_where_they_are_asked_for() -> None:
    line = f"n1  {red('RED')}  \x1b[5mblink\x1b[0m\x1b[2K"
    with redirect_stdout(io.StringIO()) as printed:
        console.out(line, colour=True)
        console.out(line)
    coloured, plain = printed.getvalue().splitlines()
    assert coloured.startswith("n1  \x1b[1;31mRED\x1b[0m  \\x1b[5mblink")
    assert coloured.endswith(r"\x1b[2K")
    assert "\x1b" not in plain


@pytest.mark.parametrize(
    ("given", "on_a_terminal", "piped"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_colour_is_for_a_terminal_unless_the_reader_says_otherwise(
    given: dict[str, str], on_a_terminal: bool, piped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = []
    for is_terminal in (True, False):
        monkeypatch.setattr(sys.stdout, "isatty", lambda is_terminal=is_terminal: is_terminal)
        found.append(console.coloured())
    assert found == [on_a_terminal, piped]


@pytest.mark.parametrize(("columns", "used"), [(40, 60), (80, 80), (120, 120), (300, 140)])
def test_lines_are_as_wide_as_the_terminal_and_alike_in_logs(
    columns: int, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert console.width() == used
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert console.width() == 100


def test_log_of_another_library_keeps_its_colours_and_lines_and_nothing_else() -> None:
    stream = io.StringIO()
    logger = logging.Logger("other")
    logger.addHandler(logging.StreamHandler(stream))
    console.guard_log(logger)
    console.guard_log(logger)
    logger.error("[%s] \x1b[31mred\x1b[0m\nsecond \x1b]0;title\x07", "n1\r")
    assert stream.getvalue() == "[n1\\r] \x1b[31mred\x1b[0m\nsecond \\x1b]0;title\\x07\n"


def test_log_without_a_handler_is_escaped_too() -> None:
    """As paramiko's is, which tells of an SSH peer's version in the peer's own characters."""
    program = (
        "import logging; from b200kit.run import console\n"
        "console.guard_log(logging.getLogger('pyinfra'))\n"
        "log = logging.getLogger('paramiko.transport')\n"
        "log.error(ValueError('one\x1b[2J'))\n"
        "try: raise ValueError('two\x1b]0;title\x07')\n"
        "except ValueError: log.exception('three')\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    lines = run.stderr.splitlines()
    assert lines[0] == r"one\x1b[2J"
    assert lines[-1] == r"ValueError: two\x1b]0;title\x07"
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(("stream", "code"), [("out", 7), ("err", 0)])
def test_reader_that_has_left_is_told_nothing_more(stream: str, code: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = (
        "import sys; from b200kit.run import console\n"
        f"try: console.{stream}('x'); console.{stream}('y')\n"
        "except BrokenPipeError: console.abandon(sys.stdout); sys.exit(7)"
    )
    with os.fdopen(writer, "wb") as gone:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, f"std{stream}": gone}
        run = subprocess.run([sys.executable, "-c", program], **streams)  # type: ignore[call-overload]
    assert run.returncode == code
    assert not run.stdout
    assert not run.stderr


DRAWS = """
import sys
from b200kit.run import console
with console.redrawn() as draw:
    draw(["n1  \\x1b[31mOUT\\x1b[0m \\x1b[2J"])
    if sys.argv[1] == "fails":
        raise KeyboardInterrupt
"""


@pytest.mark.parametrize("way", ["ends", "fails"])
def test_a_screen_is_left_as_it_was_found_however_it_ends(way: str) -> None:
    here, there = pty.openpty()
    words = [sys.executable, "-c", DRAWS, way]
    subprocess.run(words, stdout=there, stderr=subprocess.DEVNULL, check=False)
    os.close(there)
    shown = os.read(here, 65536).decode()
    os.close(here)
    assert shown.startswith("\x1b[?1049h\x1b[?25l\x1b[?7l")
    assert shown.endswith("\x1b[?7h\x1b[?25h\x1b[?1049l")
    # What a line holds besides our own colours does not drive the screen.
    assert "\x1b[2J" not in shown
    assert shown.count("\x1b[J") == 1


def test_what_is_no_terminal_gets_lines_without_codes() -> None:
    with redirect_stdout(io.StringIO()) as printed, console.redrawn() as draw:
        draw([red("OUT\x1b[2J")])
        draw(["two"])
    assert printed.getvalue() == f"{red('OUT')}\n\ntwo\n\n".replace("OUT", r"OUT\x1b[2J")
