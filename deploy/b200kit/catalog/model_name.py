"""What a person calls a model: a name of the catalogue, or the Hub's. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from b200kit.catalog.types import Model


def known(word: str, models: Mapping[str, Model]) -> str | None:
    """The catalogue's name of what *word* means: that name, or ORG/NAME[@COMMIT] of the Hub."""
    if word in models:
        return word
    repository = word.partition("@")[0].lower()
    return next((n for n, model in models.items() if model.source.lower() == repository), None)


def near(word: str, models: Mapping[str, Model]) -> list[str]:
    """Names of the catalogue that may have been meant, the nearest first."""
    return get_close_matches(word.rpartition("/")[2].partition("@")[0].lower(), models, 3, 0.75)
