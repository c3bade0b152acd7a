"""What all sub-commands share: exit codes that their help lists, and refusals of one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

INTERRUPTED = 130
USAGE = 64
"""Of sysexits.h: an option, a file that is named, or no site here. No verdict has this code."""


class Command(click.Command):
    """A command whose help ends with the meaning of its exit codes."""

    def __init__(self, *args: Any, exit_codes: Mapping[int, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        usage = "the request is wrong: its options, a file that it names, or no site here"
        self.exit_codes = {**exit_codes, USAGE: usage}

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes below the options."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in self.exit_codes.items()])


def words(error: Exception) -> str:
    """An error in words: of the system's, the file and the reason instead of number and quotes."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


class Refusal(Exception):
    """A request that was understood and cannot be done, in one line, with its exit code."""

    def __init__(self, why: str | Exception, exit_code: int) -> None:
        super().__init__(why if isinstance(why, str) else words(why))
        self.exit_code = exit_code
