"""What the commands on records share: which directory, and a refusal of one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from b200kit.cli.command import Refusal
from b200kit.records import store
from b200kit.records.entries import RecordError

FOLDER = click.option(
    "--records", type=click.Path(path_type=Path, file_okay=False), default=store.directory,
    metavar="DIR", help="Directory of the records; else the site's.",
)  # fmt: skip


@contextmanager
def refusals(exit_code: int) -> Iterator[None]:
    """Report what cannot be read or is missing in one line, with this exit code."""
    try:
        yield
    except (OSError, RecordError) as error:
        raise Refusal(error, exit_code) from None
