"""The data this checkout ships: hardware, models and settings, by name. Read once a process."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from b200kit.catalog import engines, hardware, settings, shipped, systems
from b200kit.catalog.types import Catalogue, Model
from b200kit.node.lib.documents import LARGE, Malformed, Object, content, decode
from b200kit.sizing import model_config, quantisation
from b200kit.sizing.dimensions import Dimensions, ModelError

_MODELS = Path(__file__).resolve().parent / "models"
_CONFIG = "config.json"


@cache
def load() -> Catalogue:
    """All of it."""
    return Catalogue(
        hardware=hardware.machines(),
        models=_models(),
        settings=settings.load(),
        engines=engines.load(),
        systems=systems.load(),
        contexts=engines.contexts(),
    )


def with_site_model(known: Catalogue, name: object, path: object) -> Catalogue:
    """The catalogue with the model of a config.json added under a name, when there is a path.

    Raises ModelError, in one line, for a file that cannot be read or is no model's.
    """
    if not isinstance(path, str) or not isinstance(name, str):
        return known
    found = _dimensions(Path(path))
    own = Model(name, "a model of the site's own", dimensions=found)
    stated = known.models.get(name)
    if stated:
        # A checkpoint in other formats than the original's is none.
        alike = stated.dimensions is not None and stated.dimensions.formats == found.formats
        original = stated.original and alike
        own = replace(stated, dimensions=found, weights_bytes=None, original=original)
    return replace(known, models={**known.models, name: own})


def from_config(path: Path) -> Model:
    """A model known by its config.json, or the directory of it, after which it is named."""
    path = path / _CONFIG if path.is_dir() else path
    named = path.resolve().parent.name if path.name == _CONFIG else path.stem
    return Model(named, str(path), dimensions=_dimensions(path))


def _dimensions(path: Path) -> Dimensions:
    """Of a config.json and what ModelOpt wrote beside it, if it did."""
    beside = path.with_name(quantisation.BESIDE)
    return model_config.parse(_document(path), _document(beside) if beside.exists() else None)


def _document(path: Path) -> dict[str, Any]:
    try:
        return decode(Object, content(path), LARGE, path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    except Malformed as error:
        raise ModelError(str(error)) from None


def _models() -> dict[str, Model]:
    documents = model_documents()
    return {name: _model(name, document, documents) for name, document in documents.items()}


def model_documents() -> dict[str, dict[str, Any]]:
    """The files of models as they are written, by name; the folders are their makers'."""
    paths = sorted(_MODELS.rglob("*.yaml"), key=lambda path: path.stem)
    return {path.stem: shipped.read(path) for path in paths}


def _config(document: dict[str, Any], others: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What decides a model's sizes: as it is written, or as another's but for some keys."""
    config = document["config"]
    if isinstance(config, str):
        return _config(others[config], others)
    if "like" not in config:
        return dict(config)
    changed = {**_config(others[config["like"]], others), **config}
    return {key: value for key, value in changed.items() if key != "like" and value is not None}


def _model(name: str, document: dict[str, Any], others: dict[str, dict[str, Any]]) -> Model:
    stated = _config(document, others)
    parts = {
        part: form if isinstance(form, dict) else {form: 1.0}
        for part, form in document.get("parts", {}).items()
    }
    return Model(
        name=name,
        source=document["source"],
        flags=tuple(sorted((document.get("flags") or {}).items())),
        family=document["family"],
        revision=document["revision"],
        dimensions=replace(model_config.parse(stated), weights=document["weights"], parts=parts),
        weights_bytes=document.get("weights_bytes"),
        original=document.get("original", False),
        gated=document.get("gated", False),
    )
