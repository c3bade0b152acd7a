"""`b200 init [USER@]HOST...`: a site's inventory, from a look at its nodes and a model."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from b200kit.catalog import load, model_name, shipped
from b200kit.cli.command import Command, NewFolder, Refusal, require_writable, words
from b200kit.cli.deploys import JUMP, PASSWORD, sudo_password
from b200kit.cli.supply.model import pin
from b200kit.inventory import openpgp
from b200kit.inventory.keys.types import HTTP, is_url
from b200kit.node.lib import url
from b200kit.run import console, known_hosts, places
from b200kit.run.login import jumps
from b200kit.site import files, host_keys, look, plan, proposal
from b200kit.site.host_keys import Sources, Untrusted
from b200kit.site.look import NotUsable
from b200kit.site.plan import PinnedHost, SeenNode, SiteRequest
from b200kit.sizing.goals import GOALS
from b200kit.supply.models import hub, manifest
from b200kit.supply.program import SupplyRefused
from b200kit.supply.vendor_keys import bring

WRITTEN, DIFFERS, REFUSED = 0, 1, 3
_AT_ONCE = 16
_MODEL = re.compile(r"[a-z0-9][a-z0-9._-]*")
_ON_THE_HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*(@[0-9a-f]{40})?")
_CHOICES = Path(files.__file__).with_name("choices.yaml")
_Path = click.Path(path_type=Path)


@dataclass(frozen=True)
class _Ways:
    """How to get at the nodes: whose keys count, by which ssh_config, with which password."""

    sources: Sources
    ssh_config: str | None
    jump: str | None
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
@click.argument("hosts", nargs=-1, required=True, metavar="[USER@]HOST[:PORT]...")
@click.option(
    "--to",
    "folder",
    type=NewFolder(),
    metavar="DIR",
    help="The site's directory; else the site here, or .",
)
@click.option(
    "--model", required=True, metavar="MODEL",
    help="What to serve: a name of the catalogue (b200 models) or of the Hub, or yours.",
)  # fmt: skip
@click.option(
    "--goal", type=click.Choice(sorted(GOALS)), default="balanced", show_default=True,
    help="What matters most.",
)  # fmt: skip
@click.option("--endpoint", metavar="ADDRESS", help="Where the gateways listen; else loopback.")
@click.option(
    "--source", metavar="internet|URL", default=plan.INTERNET, show_default=True,
    help="Where nodes get everything from: the vendors' sites, or your mirror.",
)  # fmt: skip
@click.option(
    "--known-hosts",
    "known",
    type=_Path,
    metavar="PATH",
    help="Host keys you trust; else ssh's own files.",
)
@click.option(
    "--console", "consoles", multiple=True, metavar="HOST=PATH",
    help="A console's output, with the host keys that cloud-init printed.",
)  # fmt: skip
@click.option(
    "--fingerprint", "prints", multiple=True, metavar="HOST=SHA256:...",
    help="A host key's fingerprint that you compared; may be given again.",
)  # fmt: skip
@click.option("-F", "--ssh-config", metavar="PATH", help="As ssh -F.")
@JUMP
@PASSWORD
@click.option(
    "--fetch/--no-fetch", default=True, show_default=True,
    help="Bring the vendors' keys and the model's manifest, where nodes take from the internet.",
)  # fmt: skip
@click.option("--write", is_flag=True, help="Replace what differs.")
def command(
    hosts: tuple[str, ...], folder: Path | None, model: str, goal: str,
    endpoint: str | None, source: str, known: Path | None, consoles: tuple[str, ...],
    prints: tuple[str, ...], ssh_config: str | None, jump: str | None, asks: bool, fetch: bool,
    write: bool,
) -> int:  # fmt: skip
    """Look at nodes, and write inventory, group data and known_hosts for them.

    Every value says why it is that. Host keys come from where you have reason to trust them, never
    from a first connection. Run again, it shows what it would change. Nodes are only read.
    """
    _require_sound(hosts, jump, endpoint, source)
    folder = folder or places.site() or Path()
    require_writable(folder / places.INVENTORIES)
    name = _named(model, folder)
    choices = shipped.read(_CHOICES)
    trusted = Sources(
        [known] if known else [],
        {host: Path(file) for host, file in _pairs("--console", consoles)},
        _grouped(_pairs("--fingerprint", prints)),
    )
    with TemporaryDirectory() as work:
        ways = _Ways(trusted, ssh_config, jump, sudo_password() if asks else None, Path(work))
        nodes = _seen(hosts, ways, folder)
    of = manifest.repository(model, load.load().models.get(name))
    if fetch and source == plan.INTERNET:
        _bring(nodes, of, name, folder / places.INVENTORIES)
    asked = _asked(folder, name, goal, endpoint, source)
    asked = replace(asked, gated=source == plan.INTERNET and _gated(of, name, folder, fetch))
    present = _there(folder, [files.HOSTS]).get(files.HOSTS, "")
    text = files.written(nodes, asked, load.load().models.get(asked.model), choices, present)
    return _propose(folder, text, nodes, asked, of, write)


def _require_sound(
    hosts: Sequence[str], jump: str | None, endpoint: str | None, source: str
) -> None:  # fmt: skip
    """Refuse words that no inventory can hold, before anybody is asked anything."""
    try:
        names = [plan.name_of(host).lower().rstrip(".") for host in hosts]
        jumps(jump or "none")
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise click.UsageError(f"{twice} is named twice")
    if source != plan.INTERNET and not is_url(source, HTTP):
        said = '--source is "internet" or the URL of a mirror, without a user or a query'
        raise click.UsageError(said)
    if endpoint is not None:
        try:
            url.address(endpoint)
        except ValueError:
            raise click.UsageError(f"--endpoint {endpoint} is no address") from None


def _named(word: str, folder: Path) -> str:
    """The model's name in the inventory. One that is nearly the catalogue's is no model yet."""
    models = load.load().models
    if name := model_name.known(word, models):
        return name
    name = word.rpartition("/")[2].partition("@")[0].lower()
    if not _MODEL.fullmatch(name) or ("/" in word and not _ON_THE_HUB.fullmatch(word)):
        raise click.UsageError(f'"{word}" is no name of a model, such as llama-3.3-70b-fp8')
    if (near := model_name.near(name, models)) and "/" not in word and not _pinned(folder, name):
        manifests = folder / places.INVENTORIES / "models"
        raise click.UsageError(
            f'unknown model "{word}"; did you mean {" or ".join(near)}? One of your own of this '
            f"name is taken once its manifest is in {manifests} (b200 model pin)"
        )
    return name


def _pinned(folder: Path, model: str) -> list[Path]:
    return sorted((folder / places.INVENTORIES).glob(f"models/{model}-????????????.json"))


def _gated(of: str, name: str, folder: Path, ask: bool) -> bool:
    """As the catalogue says, or the Hub of others; a token that is there stays in use."""
    model = load.load().models.get(name)
    if (folder / places.INVENTORIES / plan.HF_TOKEN).exists() or (model and model.gated):
        return True
    return ask and model is None and "ORG/" not in of and hub.is_gated(of)


def _bring(nodes: Sequence[SeenNode], of: str, name: str, inventories: Path) -> None:
    """Fetch keys and manifest; what cannot be fetched is named, and listed under "Next"."""
    known = load.load()
    for system in sorted({node.system for node in nodes}):
        for preset in known.systems[system].repositories:
            try:
                if bring(preset, inventories / "keys"):
                    console.out(f"{inventories / 'keys' / preset.name}.asc: {preset.fingerprint}")
            except SupplyRefused as error:
                console.err(f"not fetched: {error}")
    if not _pinned(inventories.parent, name):
        try:
            console.out(f"{pin(of, name, inventories / 'models')} written")
        except (Refusal, ValueError) as error:
            console.err(f"the model's manifest is not fetched: {error}")


def _pairs(option: str, words: Sequence[str]) -> list[tuple[str, str]]:
    pairs = [word.partition("=") for word in words]
    if wrong := [word for word, (_, mark, value) in zip(words, pairs, strict=True) if not value]:
        raise click.UsageError(f"{option} {wrong[0]} is not HOST=...")
    return [(host, value) for host, _, value in pairs]


def _grouped(pairs: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    return {host: [value for name, value in pairs if name == host] for host, _ in pairs}


def _asked(folder: Path, model: str, goal: str, endpoint: str | None, source: str) -> SiteRequest:
    inventories = folder / places.INVENTORIES
    manifests = _pinned(folder, model)
    if len(manifests) > 1:
        names = ", ".join(path.name for path in manifests)
        raise Refusal(f"{inventories}/models has {names}: leave the one to serve", REFUSED)
    revision = manifest.revision(manifests[0].read_bytes()) if manifests else None
    fingerprint = None if source == plan.INTERNET else _fingerprint(inventories / plan.MIRROR_KEY)
    return SiteRequest(model, goal, source, endpoint, fingerprint, revision)


def _fingerprint(key: Path) -> str:
    try:
        [found] = openpgp.fingerprints(key.read_text(errors="replace"))
    except FileNotFoundError:
        make = f"b200 mirror key --to {key.parent}"
        raise Refusal(f"{key} is not there: {make}", REFUSED) from None
    except OSError as error:
        raise Refusal(error, REFUSED) from None
    except ValueError as error:
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
        way, own = look.login(typed, ways.ssh_config, ways.jump)
        # Those of an earlier run were vouched for then.
        known = [folder / files.HOSTS, *(ways.sources.files or own)]
        sources, work = replace(ways.sources, files=known), ways.work / plan.name_of(typed)
        pins: list[PinnedHost] = []
        for name, machine in [*look.hops(way), (plan.name_of(typed), way)]:
            # What is behind a jump host is seen through it, once that is believed itself.
            held = look.held(machine, pins, work)
            keys, why = host_keys.trusted(name, held, sources)
            pins.append(
                PinnedHost(known_hosts.name_of(machine.host, machine.port or 22), keys, why)
            )
        return look.seen(typed, way, pins, work, ways.password)
    except (NotUsable, Untrusted, ValueError, OSError) as error:
        return words(error)


def _there(folder: Path, names: Sequence[str]) -> dict[str, str]:
    try:
        return proposal.there(folder, dict.fromkeys(names, ""))
    except OSError as error:
        raise Refusal(error, REFUSED) from None
    except ValueError as error:
        raise Refusal(f"{folder}: {error}", REFUSED) from None


def _propose(
    folder: Path,
    text: Mapping[str, str],
    nodes: Sequence[SeenNode],
    asked: SiteRequest,
    of: str,
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
    if made := files.make_key(folder):
        console.out(f"{made} written: what clients must present; only you can read it")
    console.err("", "Next:", *(f"    {line}" for line in _next(folder, nodes, asked, of)))
    return WRITTEN


def _next(folder: Path, nodes: Sequence[SeenNode], asked: SiteRequest, of: str) -> list[str]:
    """The commands that lead on from here."""
    inventories = folder / "inventories"
    kernels = " ".join(f"--kernel {kernel}" for kernel in sorted({n.kernel for n in nodes}))
    keys, known = inventories / "keys", load.load()
    steps = [
        f"b200 keys {system} --to {keys}"
        for system in sorted({node.system for node in nodes})
        if not all(
            (keys / f"{preset.name}.asc").exists() for preset in known.systems[system].repositories
        )
    ]
    if asked.gated:
        token = inventories / plan.HF_TOKEN
        account = f"# a token of an account that accepted {hub.terms(of.partition('@')[0])}"
        steps += [] if token.exists() else [f"(umask 077; cat > {token})   {account}"]
        steps += [] if asked.revision else [f"export HF_TOKEN=$(cat {token})"]
    if asked.revision is None:
        models = inventories / "models"
        steps.append(f"b200 model pin {of} --to {models} --name {asked.model}")
        typed = shlex.join(node.typed for node in nodes)
        steps.append(f"b200 init {typed} --to {folder} --model {asked.model} --write")
    if asked.fingerprint:
        steps.append(f"b200 mirror build -i {folder / files.NODES} --to MIRROR {kernels}")
    here = folder.resolve() == Path.cwd()
    steps += [] if here else [f"cd {folder}"]
    return [*steps, "b200 ready", "b200 deploy"]
