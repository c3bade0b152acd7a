"""Readings: a plain value, or ``{"unmeasured": reason}``; and how to take them."""

from __future__ import annotations

import os
import reprlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMAND_TIMEOUT_S = 10.0
"""Seconds a helper command may take; past that its readings are unmeasured."""


def unmeasured(reason: str) -> dict[str, str]:
    """The reading that says why there is no value, on one line."""
    return {"unmeasured": " ".join(reason.split()) or "no reason was given"}


def is_unmeasured(value: object) -> bool:
    """Whether a value is such a reading."""
    return isinstance(value, dict) and "unmeasured" in value


def reason(value: object) -> str | None:
    """Why there is no value; None where there is one."""
    if not (isinstance(value, dict) and "unmeasured" in value):
        return None
    found = value["unmeasured"]
    return found if isinstance(found, str) and found else "no reason given"


def is_digits(text: str) -> bool:
    """Whether a text is a whole number in the digits 0 to 9.

    int() takes those of every script, and str.isdigit() superscripts, which int() does not take.
    """
    return text.isascii() and text.isdigit()


def short(value: object) -> str:
    """A value for a message, cut to what fits one, however deep it is."""
    text = reprlib.repr(value) if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# The last two, as a missing key, are of an answer that has another form than it should.
_NOT_READ = (
    OSError,
    ValueError,
    LookupError,
    subprocess.SubprocessError,
    TypeError,
    AttributeError,
)


def attempt(read: Callable[[], Any]) -> Any:
    """What `read` returns, or an unmeasured reading that carries its error."""
    try:
        return read()
    except _NOT_READ as error:
        return unmeasured(said_by(error))


def said_by(error: Exception) -> str:
    """An error on one line; one of Python's own says little without its kind."""
    kind = f"{type(error).__name__}: " if type(error).__module__ == "builtins" else ""
    return f"{kind}{error}"


def text(path: str | Path) -> str:
    """A small text file, stripped; raises OSError. /proc may hold bytes that are no UTF-8.

    By descriptor: a look reads hundreds of sysfs' files, and a text file object costs ten reads.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = part = os.read(descriptor, 1 << 16)
        while part:
            part = os.read(descriptor, 1 << 16)
            content += part
    finally:
        os.close(descriptor)
    return content.decode("utf-8", "replace").strip()


def absent(path: Path) -> str | None:
    """A small text file, stripped, or None where there is no such file; raises OSError."""
    try:
        return text(path)
    except FileNotFoundError:
        return None


def command(argv: list[str], accept: tuple[int, ...] = (0,)) -> str:
    """Standard output of a helper command; raises OSError when it fails or takes too long."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{argv[0]} took more than {COMMAND_TIMEOUT_S:g} s") from error
    if done.returncode not in accept:
        output = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise OSError(f"{argv[0]} exited {done.returncode}: {output[-1]}")
    return done.stdout


def printable(text: str) -> str:
    r"""Return *text* with controls, line separators and marks of direction as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
