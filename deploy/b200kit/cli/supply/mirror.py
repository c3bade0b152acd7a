"""`b200 mirror`: everything an inventory's nodes install, in one signed directory to carry."""

from __future__ import annotations

import errno
import math
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from b200kit.catalog import systems
from b200kit.cli.command import JSON, Command, CommandGroup, NewFolder, Refusal, refusals, words
from b200kit.cli.deploys import INVENTORY, inventory_of
from b200kit.node.lib.documents import unstructure
from b200kit.node.weights.manifest import size_text
from b200kit.operations import mirror_needs
from b200kit.operations.inventory_process import InventoryRefused
from b200kit.run import console
from b200kit.supply.mirror import build, serve, signature, sums, wanted
from b200kit.supply.mirror.needs import Needs
from b200kit.supply.mirror.sums import Sums
from b200kit.supply.mirror.wanted import Download, WantedFiles
from b200kit.supply.program import SupplyRefused

DONE, REFUSED = 0, 1
_CODES = {DONE: "done", REFUSED: "refused, or not fetched"}
_ADVICE = {
    errno.EACCES: ": a port below 1024 takes root; take another --port",
    errno.EADDRINUSE: ": ss -ltnp 'sport = :{port}' names who has it; take another --port",
    errno.EADDRNOTAVAIL: ": --bind takes an address of this machine",
}
_DAYS = 180
_MOST_NAMES = 6
_GIGABIT = 1e9
_Path = click.Path(path_type=Path)
_Folder = click.Path(path_type=Path, file_okay=False, exists=True)
_kernels = click.option(
    "--kernel", "kernels", multiple=True, metavar="RELEASE",
    help="A kernel that nodes run (uname -r), whose headers DKMS needs; may be given again.",
)  # fmt: skip
_distributions = click.option(
    "--distribution", "given", multiple=True, metavar="SYSTEM=PATH",
    help="A .sources file of the distribution's archive; else this machine's, if it runs SYSTEM.",
)  # fmt: skip
_images = click.option(
    "--image", "images", multiple=True, metavar="NAME@sha256:DIGEST",
    help="A container image to take along, fetched by skopeo; may be given again.",
)  # fmt: skip
_private = click.option(
    "--private-key", "private", type=_Path, metavar="PATH", show_default=True,
    default=Path("~/.config/b200kit/mirror-private.asc"),
    help="The private key, which never lies in a mirror.",
)  # fmt: skip
_to = click.option(
    "--to", "root", required=True, type=NewFolder(), metavar="DIR", help="The mirror's directory."
)
_key = click.option(
    "--public-key", "key", required=True, metavar="PATH",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The public key that you have of it, not the one that came along.",
)  # fmt: skip


@click.group("mirror", cls=CommandGroup)
def command() -> None:
    """A mirror for nodes without a way out: planned, built, proven."""


@command.command("key", cls=Command, exit_codes=_CODES)
@click.option("--to", "folder", required=True, type=NewFolder(), metavar="DIR",
              help="`keys/` beside the inventory.")  # fmt: skip
@_private
def make_key(folder: Path, private: Path) -> int:
    """Make the mirror's key, once: it signs the packages for the nodes, and SHA256SUMS."""
    with refusals(REFUSED, InventoryRefused, SupplyRefused):
        public = folder / "mirror.asc"
        fingerprint = signature.make(private.expanduser(), public)
    console.err(f"{public}: keep {private}, and give it to nobody")
    console.out(f'"key": "{public}", "fingerprint": "{fingerprint}"')
    return DONE


@command.command("plan", cls=Command, exit_codes=_CODES)
@INVENTORY
@_kernels
@_distributions
@_images
@JSON
def plan(
    inventory: Path | None, kernels: tuple[str, ...], given: tuple[str, ...],
    images: tuple[str, ...], as_json: bool,
) -> int:  # fmt: skip
    """Say what an inventory's nodes download: how much, where from, what a mirror of it holds.

    Also of an inventory whose source is the internet.
    """
    with refusals(REFUSED, InventoryRefused, SupplyRefused), TemporaryDirectory() as work:
        needs = _needs(inventory_of(inventory), kernels, build=False)
        root = Path(work) / "mirror"
        found = wanted.find(needs, root, Path(work) / "work", _files(given), images)
        downloads = list(wanted.downloads(needs, found))
        if as_json:
            parts = list(wanted.parts(found))
            console.document(unstructure({"parts": parts, "downloads": downloads}))
            return DONE
        _print(found)
        console.out(*map(download_text, downloads))
    return DONE


@command.command("build", cls=Command, exit_codes=_CODES)
@INVENTORY
@_to
@_kernels
@_distributions
@_images
@_private
@click.option(
    "--days", type=click.IntRange(1, 3650), default=_DAYS, show_default=True,
    help="How long it is good for; nodes refuse its packages afterwards.",
)  # fmt: skip
def make(
    inventory: Path | None, root: Path, kernels: tuple[str, ...], given: tuple[str, ...],
    images: tuple[str, ...], private: Path, days: int,
) -> int:  # fmt: skip
    """Fetch what an inventory's nodes install into one directory, and sign it.

    A run that was ended is finished by the next. Run it again for a new driver, engine or model, or
    before it expires.
    """
    with refusals(REFUSED, InventoryRefused, SupplyRefused), TemporaryDirectory() as work:
        needs = _needs(inventory_of(inventory), kernels, build=True)
        with signature.signer(private.expanduser(), needs.fingerprint) as signer:
            root.mkdir(parents=True, exist_ok=True)
            build.require_own(root)
            found = wanted.find(needs, root, Path(work), _files(given), images)
            _print(found)
            if build.is_built(root, found, signer):
                console.out(f"{root}: nothing to do")
                return DONE
            build.fetch(root, found, console.err)
            made = build.finish(root, needs, found, signer, days)
    _summary(root, made)
    return DONE


@command.command("verify", cls=Command, exit_codes={DONE: "proven", REFUSED: "not"})
@click.argument("root", metavar="DIR", type=_Folder)
@_key
@click.option(
    "--after", type=_Folder, metavar="DIR",
    help="The mirror that it is to replace: an older one is refused.",
)  # fmt: skip
def verify(root: Path, key: Path, after: Path | None) -> int:
    """Prove every byte of a mirror by its signed SHA256SUMS: nothing missing, changed, too many."""
    with refusals(REFUSED, InventoryRefused, SupplyRefused):
        found = sums.trusted(root, key, after)
        wrong = list(sums.problems(root, found, _progress))
    console.err(*wrong[1:])
    if wrong:
        raise Refusal(wrong[0], REFUSED)
    _summary(root, found)
    return DONE


@command.command(
    "serve",
    cls=Command,
    exit_codes={DONE: "ended", REFUSED: "the address cannot be had"},
)
@click.argument("root", metavar="DIR", type=_Folder)
@click.option(
    "--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS",
    help="An address of this machine that nodes reach; by default nobody else does.",
)  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8081, show_default=True)
def try_it(root: Path, bind: str, port: int) -> int:
    """Serve a mirror over HTTP, to try it. In production take a web server of yours."""
    try:
        serve.serve(root, bind, port)
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "")
        raise Refusal(f"{bind}:{port}: {words(error)}{advice.format(port=port)}", REFUSED) from None
    return DONE


def _needs(inventory: Path, kernels: tuple[str, ...], *, build: bool) -> Needs:
    found = mirror_needs.of_inventory(inventory, kernels, build=build)
    console.err(*(f"note: {line}" for line in found.notes))
    return found


def _files(given: tuple[str, ...]) -> Mapping[str, Path]:
    """The .sources files by system."""
    found: dict[str, Path] = {}
    for word in given:
        system, _, file = word.partition("=")
        if system not in systems.load() or not Path(file).is_file():
            known = ", ".join(systems.load())
            raise click.UsageError(f"{word} is not SYSTEM=PATH; systems: {known}")
        found[system] = Path(file)
    return found


def _print(of: WantedFiles) -> None:
    parts = list(wanted.parts(of))
    for part in parts:
        where = ", ".join(part.origins)
        console.out(f"{part.name:30} {part.files:5} files {size_text(part.bytes):>10}  {where}")
    console.out(f"{'in all':36} {'files':>5} {size_text(sum(part.bytes for part in parts)):>10}")


def download_text(of: Download) -> str:
    """What one node of a kind downloads; the time is arithmetic."""
    names, more = of.kind.nodes[:_MOST_NAMES], len(of.kind.nodes) - _MOST_NAMES
    who = ", ".join(names) + (f" and {more} more" if more > 0 else "")
    parts = {"packages": of.packages, "wheels": of.wheels, "model": of.model}
    what = ", ".join(f"{name} {size_text(size)}" for name, size in parts.items() if size)
    where = of.kind.source or "where the parts above are"
    minutes = math.ceil(of.bytes * 8 / _GIGABIT / 60)
    return (
        f"each of {who} downloads at most {size_text(of.bytes)} ({what}) from {where}: "
        f"{minutes} min at 1 Gbit/s"
    )


def _progress(number: int, of: int) -> None:
    if number % 100 == 0 or number == of:
        console.err(f"{number} of {of} files")


def _summary(root: Path, of: Sums) -> None:
    size = size_text(sum((root / path).stat().st_size for path in of.files))
    until = f"good until {of.expires:%Y-%m-%d}, serial {of.serial}"
    console.out(f"{root}: {len(of.files)} files, {size}, {until}")
