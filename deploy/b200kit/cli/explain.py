"""`b200 explain NAME`: what a check, a key, an outcome or any other name is, offline."""

from __future__ import annotations

from difflib import get_close_matches

import click

from b200kit.cli import topics
from b200kit.cli.command import JSON, Command, completes
from b200kit.report.terminal import lines
from b200kit.run import console

_LABEL = 15


def _words() -> list[str]:
    return [*topics.KINDS, *topics.names()]


@click.command("explain", cls=Command, exit_codes={0: "explained"})
@click.argument("words", nargs=-1, metavar="[NAME | KIND]", shell_complete=completes(_words))
@JSON
def command(words: tuple[str, ...], as_json: bool) -> None:
    """Say what a name in a result means, what is expected, and what to do.

    NAME is a check such as nvlink.links, an outcome (BARE), an exit code, a key of the inventory, a
    stage, a setting, an event, an alert, a diagnosis. KIND lists the names of one kind; nothing,
    the kinds. Nothing is connected to.
    """
    word, page = " ".join(words), lines.Lines(console.width(), console.coloured())
    if not word:
        shown = {kind: dict(of.names()) for kind, of in topics.KINDS.items()}
        rows = [(kind, str(len(shown[kind])), of.says, f"b200 explain {of.such_as}")
                for kind, of in topics.KINDS.items() if shown[kind]]  # fmt: skip
        page.table(
            [("kind", "names", "what it is", "such as"), *rows], left=0, right=frozenset({1})
        )
        _print(page, {kind: len(known) for kind, known in shown.items()}, as_json)
    elif word in topics.KINDS:
        known = topics.KINDS[word].names()
        width = min(max(map(len, known), default=0), page.names)
        for name, says in known.items():
            page.hang(f"{name:<{width}}  ", text=says)
        _print(page, dict(known), as_json)
    elif found := topics.named(word):
        for topic in found:
            _add(page, topic)
        _print(page, [_document(topic) for topic in found], as_json)
    else:
        near = " or ".join(get_close_matches(word, _words(), 3))
        end = f"did you mean {near}?" if near else "`b200 explain` lists the kinds of names"
        raise click.UsageError(f'nothing is called "{word}"; {end}')


def _print(page: lines.Lines, document: object, as_json: bool) -> None:
    console.document(document) if as_json else console.out(*page.found, colour=True)


def _add(page: lines.Lines, topic: topics.Topic) -> None:
    if page.found:
        page.line("")
    page.hang(f"{topic.name}  ", (topic.kind, "idle"), "  ", text=topic.says)
    before = ""
    for label, text in topic.facts:
        page.hang(f"  {'' if label == before else label:<{_LABEL}}", text=text)
        before = label


def _document(topic: topics.Topic) -> dict[str, object]:
    facts = [{"label": label, "text": text} for label, text in topic.facts]
    return {"kind": topic.kind, "name": topic.name, "says": topic.says, "facts": facts}
