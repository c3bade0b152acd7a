"""`b200 models [WORD]`: the models of the catalogue."""

from __future__ import annotations

import click

from b200kit.catalog import load, model_name
from b200kit.cli.command import JSON, Command, Refusal
from b200kit.report.terminal.lines import Lines
from b200kit.run import console

SHOWN, NONE = 0, 1


@click.command("models", cls=Command, exit_codes={SHOWN: "shown", NONE: "none has this word"})
@click.argument("word", default="")
@JSON
def command(word: str, as_json: bool) -> int:
    """List the models that are known, or those with WORD in their name or their Hub id.

    Wherever a model is named, either is taken.
    """
    models = load.load().models
    found = [m for n, m in models.items() if word.lower() in f"{n} {m.source}".lower()]
    if not found:
        near = " or ".join(model_name.near(word, models))
        raise Refusal(f'no model has "{word}"{f"; did you mean {near}?" if near else ""}', NONE)
    if as_json:
        keys = ("name", "source", "weights_bytes")
        console.document([{key: getattr(model, key) for key in keys} for model in found])
        return SHOWN
    page = Lines(console.width(), console.coloured())
    rows = [
        (m.name, _size(m.weights_bytes), f"{m.source}{' (gated)' if m.gated else ''}")
        for m in found
    ]
    page.table([("model", "weights", "Hub"), *rows], left=0, right=frozenset({1}))
    console.out(*page.found, colour=True)
    return SHOWN


def _size(size: int | None) -> str:
    return "not stated" if size is None else f"{size / 1e9:.0f} GB"
