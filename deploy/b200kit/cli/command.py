"""What all sub-commands share: options, exit codes that their help lists, refusals of one line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import iter_params_for_processing
from click.shell_completion import CompletionItem

from b200kit.run import console
from b200kit.run.places import NoSite

INTERRUPTED = 130
USAGE, UNWRITABLE, READER_LEFT = 64, 74, 141
"""64 and 74 of sysexits.h; what a shell reports of a program that SIGPIPE ended."""
EXIT_CODES = {
    0: "as it should be: live, fit, ready, shown, written",
    1: "it is not: a node is unfit, failed or out of reach, or what was asked is refused",
    2: "nothing is known to be wrong, but something was not measured, or cannot be read",
    3: "nodes are bare (`b200 check`), or not to be trusted (`b200 init`)",
    USAGE: "the request is wrong: its options, a file that it names, or no site here",
    UNWRITABLE: "the answer could not be written, such as to a full disk",
    INTERRUPTED: "interrupted (Ctrl-C)",
    READER_LEFT: "whoever read the answer left",
}
"""What codes mean with every command; each command's help says what they are with it."""


_OF_SITE = ("inventory", "reports", "store")
"""Options that name what is otherwise the site's."""


class Command(click.Command):
    """A command whose help ends with the meaning of its exit codes."""

    def __init__(self, *args: Any, exit_codes: Mapping[int, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.exit_codes = {**exit_codes, USAGE: EXIT_CODES[USAGE]}

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes below the options."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in self.exit_codes.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """As click does it; where no site is, the options are named that stand for it."""
        try:
            return super().invoke(ctx)
        except NoSite as error:
            absent = [f"--{name}" for name in _OF_SITE if ctx.params.get(name, "") is None]
            instead = f", or give {' and '.join(absent)}" if absent else ""
            raise NoSite(f"{error}{instead}") from None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it, but all that is missing or wrong is named at once, not the first."""
        try:
            return super().parse_args(ctx, list(args))
        except click.BadParameter:
            given, _, order = self.make_parser(ctx).parse_args(args=list(args))
            params = iter_params_for_processing(order, self.get_params(ctx))
            raise click.UsageError(" ".join(_wrong(ctx, given, params)), ctx) from None


def _wrong(
    ctx: click.Context, given: Mapping[str, Any], params: Iterable[click.Parameter]
) -> Iterator[str]:
    for param in params:
        try:
            param.process_value(ctx, param.consume_value(ctx, given)[0])
        except click.BadParameter as error:
            error.ctx, error.param = ctx, param
            yield f"{error.format_message().rstrip('.')}.".replace("?.", "?")


class CommandGroup(click.Group):
    """A group that prints its help where it is called alone."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The same as with --help, which is a question and no error."""
        return super().parse_args(ctx, args or ([] if ctx.resilient_parsing else ["--help"]))


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


@contextmanager
def refusals(exit_code: int, *more: type[Exception]) -> Iterator[None]:
    """Report what cannot be read or is missing, and *more*, a line each, with this exit code."""
    known: tuple[type[Exception], ...] = (OSError, ValueError, *more)
    try:
        yield
    except known as error:
        first, *others = getattr(error, "lines", None) or [words(error)]
        console.err(*others)
        raise Refusal(first, exit_code) from None


def require_writable(folder: Path) -> None:
    """Refuse a directory that cannot be written into or made, before there is anything to write.

    Raises click.UsageError, which names what is in the way.
    """
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir():
        raise click.UsageError(f"{there} is no directory: nothing can be written to {folder}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise click.UsageError(f"{there} cannot be written to: nothing can be put in {folder}")


class NewFolder(click.Path):
    """A directory that a command writes into, made where it is not there."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; one that cannot be written into is refused as the option's value."""
        found = Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            require_writable(found)
        except click.UsageError as error:
            self.fail(error.message, param, ctx)
        return found


_Decorated = TypeVar("_Decorated", bound=Callable[..., Any] | click.Command)
JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
REPORTS = click.option(
    "--reports", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Directory of all runs; else the site's.",
)  # fmt: skip
KNOWN_HOSTS = click.option(
    "--known-hosts", type=click.Path(path_type=Path), metavar="PATH",
    default=Path("~/.ssh/known_hosts"), show_default=True, help="Pinned host keys of the nodes.",
)  # fmt: skip
STORE = click.option(
    "--store", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
    help="The file of a site's state; else the site's own.",
)  # fmt: skip


def page_option(what: str) -> Callable[[_Decorated], _Decorated]:
    """The option for an HTML page of the result."""
    return click.option(
        "--page", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH",
        help=f"Write {what}, too.",
    )  # fmt: skip


def completes(names: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """How a shell completes a word that is one of *names*."""

    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in names() if name.startswith(begun)]

    return complete
