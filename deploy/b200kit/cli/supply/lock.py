"""`b200 lock ENGINE VERSION`: the hash-locked requirements of an engine, for each Python."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from b200kit.cli.command import Command, NewFolder, Refusal
from b200kit.run import console, places
from b200kit.supply.locks import make
from b200kit.supply.locks.lock_file import difference, pins, said, same_pins
from b200kit.supply.locks.make import LockRequest
from b200kit.supply.locks.recipe import LockRecipe, recipes
from b200kit.supply.program import SupplyRefused

MADE, REFUSED, USAGE = 0, 1, 2


@click.command(
    "lock",
    cls=Command,
    exit_codes={MADE: "made, or there already", REFUSED: "no lock can be made"},
)
@click.argument("engine")
@click.argument("version")
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="X.Y",
    help="A Python of the nodes; may be given again. Else every one that is known.",
)
@click.option(
    "--engine-kind", default="cuda", show_default=True, metavar="NAME", help="What it computes on."
)
@click.option(
    "--to",
    type=NewFolder(),
    metavar="DIR",
    default=lambda: places.LOCKS if places.IN_CHECKOUT else Path("requirements"),
    help="Directory of the locks; else requirements/.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="REQUIREMENT",
    help='Instead of what packages ask for, such as "certifi>=2026.10.18".',
)
@click.option(
    "--compiled",
    is_flag=True,
    help="Keep FlashInfer although its kernels can't be had: for nodes with cuda_toolkit.",
)
def command(
    engine: str,
    version: str,
    pythons: tuple[str, ...],
    engine_kind: str,
    to: Path,
    overrides: tuple[str, ...],
    compiled: bool,
) -> int:
    """Make the hash-locked requirements of ENGINE's VERSION, and say what changed.

    Where packages come from is uv's own setting.
    """
    recipe = _recipe(engine, engine_kind)
    wanted, day = LockRequest(recipe, version, overrides, compiled), f"{datetime.now(UTC):%Y-%m-%d}"
    texts = {python: _made(wanted, python, day) for python in pythons or recipe.pythons}
    to.mkdir(parents=True, exist_ok=True)
    for python, text in texts.items():
        _write(to / recipe.file_name(python), text)
    return MADE


def _recipe(engine: str, kind: str) -> LockRecipe:
    known = recipes()
    if (engine, kind) not in known:
        there = ", ".join(" ".join(names) for names in known)
        raise Refusal(f"no recipe for {engine} {kind}; there is: {there}", USAGE)
    return known[engine, kind]


def _made(wanted: LockRequest, python: str, day: str) -> str:
    try:
        return make.make(wanted, python, day)
    except SupplyRefused as error:
        what = f"{wanted.recipe.engine} {wanted.version} for Python {python}"
        raise Refusal(f"{what}: {error}. Nothing was written.", REFUSED) from None


def _write(path: Path, text: str) -> None:
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    if same_pins(before, text):
        console.out(f"{path}: unchanged, {len(pins(text))} packages")
        return
    path.write_text(text, encoding="utf-8")
    lines = difference(before, text) if before else []
    console.out(f"{path}: {len(pins(text))} packages", *(f"  {line}" for line in lines))
    for name in said(text, "left out"):
        console.out(f"  without {name}: the index has no kernels of its version")
