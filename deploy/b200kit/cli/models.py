"""`b200 models [WORD]`: the models of the catalogue."""

from __future__ import annotations

import click

from b200kit.catalog import load, model_name
from b200kit.catalog.types import Model
from b200kit.cli.command import JSON, Command, Refusal
from b200kit.inventory import defaults
from b200kit.report.terminal.lines import Lines
from b200kit.run import console
from b200kit.site.plan import narrow
from b200kit.sizing.fit import gb

SHOWN, NONE = 0, 1


@click.command("models", cls=Command, exit_codes={SHOWN: "shown", NONE: "none has this word"})
@click.argument("word", default="")
@JSON
def command(word: str, as_json: bool) -> int:
    """List the models that are known, or those with WORD in their name or their Hub id.

    Wherever a model is named, either is taken. One in fewer bits than its original serves once it
    was compared with that, or the check is waived: `b200 plan MODEL` has the line.
    """
    models = load.load().models
    found = [m for n, m in models.items() if word.lower() in f"{n} {m.source}".lower()]
    if not found:
        near = " or ".join(model_name.near(word, models))
        raise Refusal(f'no model has "{word}"{f"; did you mean {near}?" if near else ""}', NONE)
    if as_json:
        console.document([_document(model) for model in found])
        return SHOWN
    page = Lines(console.width(), console.coloured())
    rows = [
        (
            m.name,
            _size(m),
            "fewer" if narrow(m) else "",
            m.source + " (gated)" * m.gated,
        )
        for m in found
    ]
    page.table([("model", "weights", "bits", "Hub"), *rows], left=0, right=frozenset({1}))
    console.out(*page.found, colour=True)
    return SHOWN


def _document(model: Model) -> dict[str, object]:
    return {"name": model.name, "source": model.source, "weights_bytes": model.weights_bytes,
            "lowered": narrow(model)}  # fmt: skip


def _size(model: Model) -> str:
    """Of its files where the catalogue states it, else computed."""
    if model.dimensions is None:
        return "not known"
    about = "" if model.weights_bytes else "~"
    return about + gb(defaults.subject(model).weights.total)
