"""The one place where the controller writes to a terminal: lines, and nothing that drives it.

A line may hold what a node, a peer or a file said. Whatever would not be printed as itself is shown
as an escape here, line ends included, so that no text can colour, move, hide or add a line.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from b200kit.node.lib.readings import printable

COLOURS = {
    "good": "green", "bad": "bold red", "unknown": "yellow", "waived": "cyan", "idle": "dim",
    "mark": "bold magenta",
}  # fmt: skip
PAPER = 100
"""Columns where stdout is no terminal, so that logs are alike."""
WIDTH, FRONT, JSON = "B200_WIDTH", "B200_FRONT", "B200_JSON"
"""Of `b200 deploy` and the like for the run that they start: columns, a pipe for progress, and
that the result is to be a document."""
_front = int(os.environ.pop(FRONT, "0"))
# The alternate screen, no cursor, no wrapping (xterm's control sequences: DEC modes 1049, 25, 7).
_OWN_SCREEN, _AS_IT_WAS = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
_OURS = re.compile(r"(\x1b\[(?:32|1;31|33|36|2|1;35|0)m)")  # COLOURS, and their end
_ANY_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,16}m|\n)")


class Unwritable(OSError):
    """What was to be said could not be written, for another reason than that nobody reads."""


def open_closed() -> None:
    """Stand in for output streams that the caller closed, which Python has as None.

    Stdout's refuses what is written to it, as its descriptor would; words on stderr go nowhere.
    """
    if sys.stdout is None:
        sys.stdout = open("<stdout>", "w", encoding="utf-8", opener=_unwritable)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _unwritable(_: str, __: int) -> int:
    return os.open(os.devnull, os.O_RDONLY)


def out(*lines: str, colour: bool = False) -> None:
    """Write lines to stdout; with *colour* our own codes stay. BrokenPipeError: nobody reads."""
    _write(sys.stdout, (_but(_OURS, line) if colour else printable(line) for line in lines))


def coloured() -> bool:
    """Whether colour adds: on a terminal, unless NO_COLOR is set; anywhere with FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return is_terminal or bool(os.environ.get("FORCE_COLOR"))


def width() -> int:
    """Columns of the terminal, of which lines use 60 to 140."""
    if given := os.environ.get(WIDTH):
        return int(given)
    is_terminal = sys.stdout.isatty()
    return min(max(shutil.get_terminal_size().columns, 60), 140) if is_terminal else PAPER


@contextlib.contextmanager
def redrawn() -> Iterator[Callable[[Sequence[str]], None]]:
    """What draws lines over those that it drew before; the terminal is left as it was found.

    On a screen of the terminal's own, cut at its right edge. What is no terminal gets the lines one
    below the other, without a code.
    """
    if not sys.stdout.isatty():
        yield lambda lines: out(*lines, "", colour=True)
        return
    try:
        _codes(_OWN_SCREEN)
        yield _draw
    finally:
        _codes(_AS_IT_WAS)


def _draw(lines: Sequence[str]) -> None:
    shown = (_but(_OURS, line) for line in lines)
    _codes("\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in shown) + "\x1b[J")


def _codes(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def err(*lines: str) -> None:
    """Write lines to stderr. A reader that has left ends no run: there is nobody to tell."""
    if _front:
        _front_hears(*({"line": printable(line)} for line in lines))
        return
    try:
        _write(sys.stderr, map(printable, lines))
    except BrokenPipeError:
        abandon(sys.stderr)


SAID, STILL, DONE = "said", "still", "done"
"""A line of progress that a person must see; that a stage goes on; that it ended."""


def progress(node: str, stage: str, text: str, took: str = "", kind: str = SAID) -> None:
    """What a node is at, or came to: one line on stderr."""
    if _front:
        parts = {"node": node, "stage": stage, "text": text, "took": took, "kind": kind}
        _front_hears({name: printable(part) for name, part in parts.items()})
        return
    err(f"{node}  {stage:<14} {text}{f'  {took}' if took else ''}")


def begins(node: str, stage: str) -> None:
    """A node begins a stage: only for a program that draws it."""
    if _front:
        _front_hears({"node": printable(node), "begins": printable(stage)})


def operations(counted: Callable[[], tuple[int, int]]) -> None:
    """How many of a run's operations are done, and of how many: only where a program draws it."""
    if _front:
        _front_hears(dict(zip(("done", "of"), counted(), strict=True)))


def _front_hears(*messages: dict[str, Any]) -> None:
    try:
        for message in messages:
            os.write(_front, json.dumps(message).encode() + b"\n")
    except OSError:
        """It ended: there is nobody to tell."""


def document(value: object) -> None:
    """Write a JSON document to stdout; what is not ASCII, and DEL, is escaped as JSON does it."""
    text = json.dumps(value, indent=2).replace("\x7f", r"\u007f")
    _write(sys.stdout, [text])


def abandon(stream: TextIO) -> None:
    """Let a stream without a reader end quietly; else Python fails again at its own exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def guard_log(logger: logging.Logger) -> None:
    """Escape what other libraries' logs would print; their colours and line ends stay.

    What reaches no handler Python prints by itself: of paramiko, what an SSH peer said.
    """
    for handler in (*logger.handlers, *logging.getLogger().handlers, logging.lastResort):
        if handler and not any(isinstance(known, _Escaped) for known in handler.filters):
            handler.addFilter(_Escaped())


class _Escaped(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = shown(record.getMessage()), ()
        if record.exc_info:
            # A formatter takes this text where there is one.
            record.exc_text = shown(logging.Formatter().formatException(record.exc_info))
        return True


def shown(text: str) -> str:
    """Text of another library that prints: its colours and line ends stay, nothing else."""
    return _but(_ANY_COLOUR, text)


def _but(kept: re.Pattern[str], text: str) -> str:
    """*text* as it can be printed, but for what *kept* matches."""
    parts = kept.split(text)
    return "".join(part if n % 2 else printable(part) for n, part in enumerate(parts))


def _write(stream: TextIO, lines: Iterable[str]) -> None:
    try:
        for line in lines:
            stream.write(f"{line}\n")
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(
            error.errno, f"{stream.name} cannot be written: {error.strerror}"
        ) from None
