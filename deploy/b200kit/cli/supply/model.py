"""`b200 model publish|pin`: a model for a site's store, or pinned for nodes that ask the Hub."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from b200kit.catalog import load, model_name
from b200kit.cli.command import Command, CommandGroup, NewFolder, refusals
from b200kit.inventory.source import manifest_file
from b200kit.node.lib import durable_files
from b200kit.node.weights.manifest import ManifestFile, parse, size_text
from b200kit.node.weights.source import FileSource
from b200kit.run import console
from b200kit.supply.models import checkpoint, directory, hub, manifest, publish
from b200kit.supply.models.checkpoint import Read
from b200kit.supply.models.manifest import Origin
from b200kit.supply.program import SupplyRefused

DONE, REFUSED = 0, 1
_CODES = {DONE: "there", REFUSED: "refused, or not fetched"}
_SHOWN = 10
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_NAMED = click.option(
    "--name",
    metavar="NAME",
    help="Name in the inventory; else the catalogue's, or the repository's.",
)
_WITHOUT = click.option(
    "--without", multiple=True, metavar="PATTERN", help="Leave files out; may be given again."
)
_PICKLES = click.option(
    "--allow-pickle", "pickles", multiple=True, metavar="PATH",
    help="Take this pickle, which runs code when it is loaded; may be given again.",
)  # fmt: skip


@dataclass(frozen=True)
class _Model:
    """A model that is to be published or pinned: its manifest, and where its files are."""

    raw: bytes
    entries: Sequence[ManifestFile]
    source: FileSource
    read: Read


@click.group("model", cls=CommandGroup)
def command() -> None:
    """Models for a site: checked, with a manifest that pins every byte."""


@command.command("publish", cls=Command, exit_codes=_CODES)
@click.argument("what", metavar="REPO[@COMMIT]|DIR")
@click.option(
    "--to", "store", required=True, type=NewFolder(), metavar="DIR",
    help="Directory of the model store.",
)  # fmt: skip
@_NAMED
@_WITHOUT
@_PICKLES
def publish_model(
    what: str, store: Path, name: str | None, without: tuple[str, ...], pickles: tuple[str, ...]
) -> int:
    """Put a model of the Hub, or of a directory, into a store as STORE/NAME/REVISION/.

    It is refused where it is not what its config.json and index say. A run that was ended is
    finished by the next. The token for the Hub is huggingface_hub's own (HF_TOKEN, or a login).
    """
    with refusals(REFUSED, SupplyRefused):
        named = _name(what, name)
        model = _model(what, without, pickles)
        target = store / named / manifest.revision(model.raw)
        if not publish.is_there(target, model.raw, model.entries):
            folder = publish.building(store, named, model.raw)
            publish.fetch(folder, model.entries, lambda _: model.source, console.err)
            _check(model.entries, lambda path, n: directory.head(folder / path, n), pickles)
            publish.place(folder, model.raw, model.entries)
    _print(named, model)
    return DONE


@command.command("pin", cls=Command, exit_codes=_CODES)
@click.argument("what", metavar="MODEL|REPO[@COMMIT]")
@click.option(
    "--to", "folder", required=True, metavar="DIR",
    type=NewFolder(), help="`models/` beside the inventory.",
)  # fmt: skip
@_NAMED
@_WITHOUT
@_PICKLES
def pin_model(
    what: str, folder: Path, name: str | None, without: tuple[str, ...], pickles: tuple[str, ...]
) -> int:
    """Write the manifest alone, for nodes with `source = "internet"`, which fetch from the Hub.

    Hashes and sizes of large files are the Hub's; small ones are read. Without COMMIT it is the one
    at which the repository stands now.
    """
    with refusals(REFUSED, SupplyRefused):
        models = load.load().models
        if known := model_name.known(what, models):
            name, what = name or known, manifest.repository(what, models[known])
        named = _name(what, name)
        path, model = _pin(what, named, folder, without, pickles)
    console.err(f"{path}: {len(model.entries)} files")
    _print(named, model)
    return DONE


def pin(what: str, name: str, folder: Path) -> Path:
    """Write the manifest of REPO[@COMMIT] below *folder*; returns its path. Raises Refusal."""
    with refusals(REFUSED, SupplyRefused):
        return _pin(what, name, folder, (), ())[0]


def _pin(
    what: str, name: str, folder: Path, without: Collection[str], pickles: Collection[str]
) -> tuple[Path, _Model]:
    model = _model(hub.pinned(what), without, pickles)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / manifest_file(name, manifest.revision(model.raw))
    durable_files.replace(path, model.raw.decode(), 0o644)
    return path, model


def _name(what: str, given: str | None) -> str:
    """The name in the inventory: as given, of the catalogue, else made of the last part."""
    repository = what.partition("@")[0].rstrip("/")
    known = {model.source: name for name, model in load.load().models.items()}
    name = given or known.get(repository) or repository.rpartition("/")[2].lower()
    if not _NAME.fullmatch(name):
        raise ValueError(f'"{name}" is no name of a model: give --name, such as llama-3.3-70b-fp8')
    return name


def _model(what: str, without: Collection[str], pickles: Collection[str]) -> _Model:
    root = Path(what)
    found = (
        _of_directory(root, without)
        if root.is_dir()
        else _of_hub(manifest.origin(hub.pinned(what)), without, pickles)
    )
    _check(found.entries, found.read, pickles)
    # As nodes will read it.
    parse(found.raw, manifest.revision(found.raw))
    return found


def _of_directory(root: Path, without: Collection[str]) -> _Model:
    files = directory.files(root, without)
    entries = [directory.entry(path, at) for path, at in files.items()]
    source = FileSource(root.resolve().as_uri())
    return _Model(
        manifest.written(entries), entries, source, lambda path, n: directory.head(files[path], n)
    )


def _of_hub(origin: Origin, without: Collection[str], pickles: Collection[str]) -> _Model:
    def wanted(paths: list[str]) -> list[str]:
        chosen = [path for path in paths if not checkpoint.is_left_out(path, without)]
        _refuse([line for path in chosen for line in checkpoint.of_name(path, pickles)])
        return chosen

    source = hub.source(origin)
    entries = hub.entries(origin, source, wanted)
    return _Model(
        manifest.written(entries, origin),
        entries,
        source,
        lambda path, n: hub.head(source, path, n),
    )


def _check(entries: Sequence[ManifestFile], read: Read, pickles: Collection[str]) -> None:
    found = checkpoint.report({each.path: each.size for each in entries}, read, pickles)
    console.err(*(f"note: {line}" for line in found.notes))
    _refuse(found.problems)


def _refuse(problems: Sequence[str]) -> None:
    """The first problem is the refusal; the next ones stand above it, each on a line."""
    if problems:
        more = len(problems) - _SHOWN
        console.err(*problems[1:_SHOWN], *([f"and {more} more"] if more > 0 else []))
        raise ValueError(problems[0])


def _print(name: str, model: _Model) -> None:
    console.err(f"{name}: {size_text(sum(each.size for each in model.entries))}")
    console.out(f'model = "{name}"', f'model_revision = "{manifest.revision(model.raw)}"')
