"""`b200 acceptance`: sealed runs verified, compared, made into floors, sent to a vendor."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from b200kit.acceptance import figures, sanitised, seal
from b200kit.acceptance import page as sign_off
from b200kit.acceptance.network import nccl_log
from b200kit.acceptance.network import run as network
from b200kit.cli.command import (
    JSON,
    KNOWN_HOSTS,
    STORE,
    Command,
    CommandGroup,
    NewFolder,
    page_option,
    refusals,
)
from b200kit.node.acceptance import folder as folders
from b200kit.node.lib import durable_files, signature, timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.verdict import Verdict
from b200kit.records import archive
from b200kit.report import files
from b200kit.reprovision import exclusions, ledger
from b200kit.run import console, signed_proof
from b200kit.store import database

REFUSED, UNREADABLE = 1, 2
_DIRECTORY = click.Path(path_type=Path, file_okay=False, exists=True)
_RUN = click.argument("folder", type=_DIRECTORY, metavar="DIR")
_RUNS = click.argument("folders", type=_DIRECTORY, nargs=-1, metavar="[DIR...]")


@click.group("acceptance", cls=CommandGroup)
def command() -> None:
    """Acceptance runs of nodes (b200 accept): verify, compare, make floors, find lemons."""


@command.command(
    "verify", cls=Command,
    exit_codes={0: "as its node sealed it", REFUSED: "refused: which file is not, or who signed"},
)  # fmt: skip
@_RUN
@click.option(
    "--node", metavar="NODE", help="Of which node it must be; else the one that it names."
)
@click.option("--name", metavar="NAME", help="What the node is called in the known_hosts file.")
@KNOWN_HOSTS
@page_option("the page that a person signs")
@JSON
def verify(
    folder: Path, node: str | None, name: str | None, known_hosts: Path, page: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Say whether DIR is complete, unchanged, signed by its node, and what its verdict is."""
    if name and not node:
        raise click.UsageError("--name needs --node: which node is called so there?")
    hosts = known_hosts.expanduser()
    allowed = partial(signed_proof.pinned, hosts, name=name, namespace=signature.ACCEPTANCE)
    with refusals(REFUSED):
        if (folder / network.SIGNATURES).is_dir():
            if page or node:
                raise click.UsageError("--page and --node are for the run of one node")
            verdict, who = network.verified(folder, allowed).verdict, f"{folder}: all its nodes"
            return _verified(verdict, who, as_json)
        found = seal.verified(folder, allowed, node)
        if page:
            files.write_text(page, sign_off.page(found))
    who = f"{folder}: {found.plan.node}, level {found.plan.level}, {found.signed_by}"
    return _verified(found.verdict, who, as_json)


def _verified(verdict: Verdict, who: str, as_json: bool) -> None:
    if as_json:
        console.document({"verdict": unstructure(verdict), "signed_by": who})
        return
    counts = ", ".join(f"{n} {status}" for status, n in verdict.counts.items() if n)
    console.out(f"{who}: signed, {verdict.fit} ({counts})")


@command.command(
    "sanitise", cls=Command,
    exit_codes={0: "written", UNREADABLE: "it is no run, would name the site, or is not written"},
)  # fmt: skip
@_RUN
@click.option(
    "--to", type=NewFolder(), required=True, metavar="DIR",
    help="One that is there is not written into.",
)  # fmt: skip
def sanitise(folder: Path, to: Path) -> None:
    """Write a copy of DIR for a vendor: names, addresses and serial numbers are replaced.

    Where one would be left, nothing is written. The seal is gone with them.
    """
    with refusals(UNREADABLE):
        plan, lines = folders.read(folder)
        names = [name for name in folders.members(folder) if (folder / name).is_file()]
        texts = {name: (folder / name).read_text("utf-8", "replace") for name in names}
        key = secrets.token_bytes(32)
        found = sanitised.sanitised(texts, plan, lines, archive.words(), key)
        to.mkdir()
        for name, text in found.files.items():
            durable_files.replace(to / name, text)
    console.out(f"{to}: {sum(found.counts.values())} replaced; read it before you send it")


@command.command(
    "compare", cls=Command,
    exit_codes={0: "nothing is slower than its peers", REFUSED: "what is listed is slower",
                UNREADABLE: "there are no runs, or one cannot be read"},
)  # fmt: skip
@_RUNS
@JSON
def compare(folders: Sequence[Path], as_json: bool) -> int:
    """Compare each GPU and link with the others of its node, each node with the fleet.

    Of each node the newest run of those in DIR..., or of the site's, whatever its verdict is.
    """
    with refusals(UNREADABLE):
        every = list(figures.compare(figures.newest(_runs(folders))))
    slow = [one for one in every if one.finding.rating in ("bad", "watch")]
    if as_json:
        console.document({"compared": unstructure(every)})
    else:
        console.out(*map(_slower, sorted(slow, key=lambda one: one.finding.percent)))
        few = sum(one.finding.rating == "not compared" for one in every)
        console.out(
            f"{len(every)} figures: {len(slow)} slower than their peers, {few} not compared"
        )
    return REFUSED if any(one.finding.rating == "bad" for one in slow) else 0


def _slower(one: figures.PeerComparison) -> str:
    of = one.finding
    z = "" if of.z is None else f", z {of.z:.1f}"
    return (
        f"{of.rating:<6} {one.among}  {of.name}: {one.metric} {of.value:.5g} {one.unit}, "
        f"{of.percent:+.1f} % of the median {of.median:.5g} of {of.peers}{z}"
    )


@command.command(
    "baseline", cls=Command,
    exit_codes={0: "printed", UNREADABLE: "there are no runs, or one cannot be read"},
)  # fmt: skip
@_RUNS
@JSON
def baseline(folders: Sequence[Path], as_json: bool) -> None:
    """Print floors for the inventory, of what the runs in DIR..., or all of the site, measured.

    Each is the median less 5 %, or less four deviations where that is further.
    """
    with refusals(UNREADABLE):
        found = figures.baselines(_runs(folders))
    if as_json:
        console.document({"floors": unstructure(found)})
    else:
        console.out(*figures.inventory_lines(found, timestamp.today()))


def _runs(folders: Sequence[Path]) -> Sequence[figures.Run]:
    if found := seal.runs(folders):
        return found
    raise ValueError(f"{seal.directory()} has no run yet: b200 accept")


@command.command(
    "transport", cls=Command,
    exit_codes={0: "GPUDirect RDMA over every rail", REFUSED: "over something else",
                UNREADABLE: "the logs do not say, or cannot be read"},
)  # fmt: skip
@click.argument(
    "logs", type=click.Path(path_type=Path, dir_okay=False, exists=True), nargs=-1, required=True,
    metavar="PATH...",
)  # fmt: skip
@click.option("--rails", type=click.IntRange(1), required=True, help="Adapters of each node.")
@JSON
def transport(logs: Sequence[Path], rails: int, as_json: bool) -> int:
    """Say over what NCCL really sent between nodes, by the logs of all its ranks.

    They are written with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH.
    """
    with refusals(UNREADABLE):
        log = "\n".join(path.read_text("utf-8", "replace") for path in logs)
    found = Verdict(tuple(nccl_log.findings(log, rails)))
    if as_json:
        console.document(unstructure(found))
    else:
        console.out(*(f"{one.status.value:<10} {one.summary}" for one in found.findings))
    return found.exit_status


@command.command(
    "lemons", cls=Command,
    exit_codes={0: "shown", UNREADABLE: "the store is damaged, or cannot be read"},
)  # fmt: skip
@JSON
@STORE
def lemons(as_json: bool, store: Path | None) -> None:
    """List nodes and parts by how often they were taken out of service, changes left out."""
    transactions = ledger.Transactions(database.Store(store))
    with refusals(UNREADABLE), transactions.store.reading():
        lines = [line for node in transactions.nodes() for line in transactions.lines(node)]
    found = exclusions.counted(lines)
    if as_json:
        console.document({"exclusions": unstructure(found)})
        return
    console.out(*_lemons(found))


def _lemons(found: Sequence[exclusions.Exclusions]) -> Iterator[str]:
    nodes = [one for one in found if not one.part]
    times = sum(one.times for one in nodes)
    for one in found:
        why = ", ".join(f"{cause} {n}" for cause, n in one.why.items())
        what = one.part or "the node"
        yield f"{one.times:>4}  {one.node}  {what}: {one.first[:10]} to {one.last[:10]}: {why}"
    yield f"{len(nodes)} nodes were taken out {times} times"
