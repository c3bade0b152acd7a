"""`b200 init [USER@]HOST...`: a site's inventory, from a look at its nodes and three answers."""

from __future__ import annotations

import getpass
import ipaddress
import re
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from b200kit.catalog import load, shipped
from b200kit.cli.command import Command, Refusal
from b200kit.inventory import openpgp
from b200kit.run import console
from b200kit.site import files, host_keys, look, plan, proposal
from b200kit.site.host_keys import Sources, Untrusted
from b200kit.site.look import NotUsable
from b200kit.site.plan import SeenNode, SiteRequest
from b200kit.sizing.goals import GOALS
from b200kit.supply.models import manifest

WRITTEN, DIFFERS, REFUSED = 0, 1, 3
_AT_ONCE = 16
_MODEL = re.compile(r"[a-z0-9][a-z0-9._-]*")
_CHOICES = Path(files.__file__).with_name("choices.yaml")
_Path = click.Path(path_type=Path)


@dataclass(frozen=True)
class _Ways:
    """How to get at the nodes: whose keys count, by which ssh_config, with which password."""

    sources: Sources
    ssh_config: str | None
    password: str | None
    work: Path


@click.command(
    "init",
    cls=Command,
    exit_codes={
        WRITTEN: "written, or nothing to change",
        DIFFERS: "what is there differs; see the difference, then --write",
        REFUSED: "a node is not trusted, not reached or not supported; nothing is written",
    },
)
@click.argument("hosts", nargs=-1, required=True, metavar="[USER@]HOST...")
@click.option("--to", "folder", required=True, type=_Path, help="The site's directory.")
@click.option("--model", help="What to serve: a name of the catalogue, or yours.")
@click.option("--goal", type=click.Choice(sorted(GOALS)), help="What matters most.")
@click.option("--endpoint", metavar="ADDRESS", help="Where the gateways listen; else loopback.")
@click.option(
    "--source", metavar="internet|URL", default="internet", show_default=True,
    help="Where nodes get everything from: the vendors' sites, or your mirror.",
)  # fmt: skip
@click.option(
    "--known-hosts", "known", type=_Path, help="Host keys you trust; else ssh's own files."
)
@click.option(
    "--console", "consoles", multiple=True, metavar="HOST=FILE",
    help="A console's output, with the host keys that cloud-init printed.",
)  # fmt: skip
@click.option(
    "--fingerprint", "prints", multiple=True, metavar="HOST=SHA256:...",
    help="A host key's fingerprint that you compared; may be given again.",
)  # fmt: skip
@click.option("-F", "--ssh-config", metavar="FILE", help="As ssh -F.")
@click.option(
    "-K", "--ask-sudo-password", "asks", is_flag=True, help="Ask for sudo's password once."
)
@click.option("--write", is_flag=True, help="Replace what differs.")
def command(
    hosts: tuple[str, ...], folder: Path, model: str | None, goal: str | None,
    endpoint: str | None, source: str, known: Path | None, consoles: tuple[str, ...],
    prints: tuple[str, ...], ssh_config: str | None, asks: bool, write: bool,
) -> int:  # fmt: skip
    """Look at nodes, and write inventory, group data and known_hosts for them.

    Every value says why it is that. Host keys come from where you have reason to trust them, never
    from a first connection. Run again, it shows what it would change. Nodes are only read.
    """
    _require_sound(hosts, model, endpoint, source)
    asked = _asked(folder, _answer("--model", model), _answer("--goal", goal), endpoint, source)
    choices = shipped.read(_CHOICES)
    trusted = Sources(
        [known] if known else [],
        {host: Path(file) for host, file in _pairs("--console", consoles)},
        _grouped(_pairs("--fingerprint", prints)),
    )
    with TemporaryDirectory() as work:
        ways = _Ways(trusted, ssh_config, _password() if asks else None, Path(work))
        nodes = _seen(hosts, ways, folder)
    present = _there(folder, [files.HOSTS]).get(files.HOSTS, "")
    text = files.written(nodes, asked, load.load().models.get(asked.model), choices, present)
    return _propose(folder, text, nodes, asked, write)


def _require_sound(
    hosts: Sequence[str], model: str | None, endpoint: str | None, source: str
) -> None:
    """Refuse words that no inventory can hold, before anybody is asked anything."""
    names = [plan.name_of(host) for host in hosts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise click.UsageError(f"{twice} is named twice")
    if model is not None and not _MODEL.fullmatch(model):
        raise click.UsageError(f'"{model}" is no name of a model, such as llama-3.3-70b-fp8')
    if source != "internet" and not source.startswith(("http://", "https://")):
        raise click.UsageError(f'--source is "internet" or the URL of a mirror, not {source}')
    if endpoint is not None:
        try:
            ipaddress.ip_address(endpoint)
        except ValueError:
            raise click.UsageError(f"--endpoint {endpoint} is no address") from None


def _answer(option: str, given: str | None) -> str:
    """What the option says, or a person at a terminal."""
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise click.UsageError(f"{option} is not given")
    words = sorted(load.load().models) if option == "--model" else sorted(GOALS)
    said: str = click.prompt(option.strip("-"), type=click.Choice(words), err=True)
    return said


def _password() -> str:
    given = getpass.getpass("sudo password: ") if sys.stdin.isatty() else sys.stdin.readline()
    return given.rstrip("\n")


def _pairs(option: str, words: Sequence[str]) -> list[tuple[str, str]]:
    pairs = [word.partition("=") for word in words]
    if wrong := [word for word, (_, mark, value) in zip(words, pairs, strict=True) if not value]:
        raise click.UsageError(f"{option} {wrong[0]} is not HOST=...")
    return [(host, value) for host, _, value in pairs]


def _grouped(pairs: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    return {host: [value for name, value in pairs if name == host] for host, _ in pairs}


def _asked(folder: Path, model: str, goal: str, endpoint: str | None, source: str) -> SiteRequest:
    inventories = folder / "inventories"
    manifests = sorted(inventories.glob(f"models/{model}-????????????.json"))
    if len(manifests) > 1:
        names = ", ".join(path.name for path in manifests)
        raise Refusal(f"{inventories}/models has {names}: leave the one to serve", REFUSED)
    revision = manifest.revision(manifests[0].read_bytes()) if manifests else None
    fingerprint = None if source == "internet" else _fingerprint(inventories / plan.MIRROR_KEY)
    return SiteRequest(model, goal, source, endpoint, fingerprint, revision)


def _fingerprint(key: Path) -> str:
    try:
        [found] = openpgp.fingerprints(key.read_text(errors="replace"))
    except FileNotFoundError:
        make = f"b200 mirror key --to {key.parent}"
        raise Refusal(f"{key} is not there: {make}", REFUSED) from None
    except (OSError, ValueError) as error:
        raise Refusal(f"{key}: {error}", REFUSED) from None
    return found


def _seen(hosts: Sequence[str], ways: _Ways, folder: Path) -> list[SeenNode]:
    """All nodes; one that is not to be used costs the others nothing, but nothing is written."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda host: _look(host, ways, folder), hosts))
    lines = [each for each in found if isinstance(each, str)]
    console.err(*lines[1:])
    if lines:
        raise Refusal(lines[0], REFUSED)
    return [each for each in found if isinstance(each, SeenNode)]


def _look(typed: str, ways: _Ways, folder: Path) -> SeenNode | str:
    try:
        way, own = look.login(typed, ways.ssh_config)
        # Those of an earlier run were vouched for then.
        known = [folder / files.HOSTS, *(ways.sources.files or own)]
        sources = replace(ways.sources, files=known)
        keys, why = host_keys.trusted(plan.name_of(typed), way, sources)
        return look.seen(way, keys, why, ways.ssh_config, ways.work, ways.password)
    except (NotUsable, Untrusted, ValueError, OSError) as error:
        return str(error)


def _there(folder: Path, names: Sequence[str]) -> dict[str, str]:
    try:
        return proposal.there(folder, dict.fromkeys(names, ""))
    except (OSError, ValueError) as error:
        raise Refusal(f"{folder}: {error}", REFUSED) from None


def _propose(
    folder: Path,
    text: Mapping[str, str],
    nodes: Sequence[SeenNode],
    asked: SiteRequest,
    write: bool,
) -> int:
    now = _there(folder, list(text))
    lines = list(proposal.difference(now, text))
    if lines and not write:
        console.out(*lines)
        console.err("nothing was written; --write replaces what is there by this")
        return DIFFERS
    changed = proposal.write(folder, text, now)
    if not changed:
        console.out("nothing to change")
        return WRITTEN
    console.out(*(f"{folder / name} written" for name in changed))
    console.err("", "Next:", *(f"    {line}" for line in _next(folder, nodes, asked)))
    return WRITTEN


def _next(folder: Path, nodes: Sequence[SeenNode], asked: SiteRequest) -> list[str]:
    """The commands that lead on from here."""
    inventories = folder / "inventories"
    kernels = " ".join(f"--kernel {kernel}" for kernel in sorted({n.kernel for n in nodes}))
    keys, known = inventories / "keys", load.load()
    steps = [
        f"b200 keys {system} --to {keys}"
        for system in sorted({node.system for node in nodes})
        if not all((keys / f"{preset.name}.asc").exists() for preset in known.repositories[system])
    ]
    if asked.revision is None:
        model = known.models.get(asked.model)
        steps.append(manifest.pin_command(asked.model, model, inventories / "models"))
    if asked.fingerprint:
        steps.append(f"b200 mirror build {folder / files.NODES} --to MIRROR {kernels}")
    steps.append(f"pyinfra {folder / files.NODES} deploy/ready.py -y")
    return steps
