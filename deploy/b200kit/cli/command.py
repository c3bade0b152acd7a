"""What all sub-commands share: exit codes that their help lists, and refusals of one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

INTERRUPTED = 130


class Command(click.Command):
    """A command whose help ends with the meaning of its exit codes."""

    def __init__(self, *args: Any, exit_codes: Mapping[int, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.exit_codes = exit_codes

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes below the options."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in self.exit_codes.items()])


class Refusal(Exception):
    """A request that was understood and cannot be done, in one line, with its exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
