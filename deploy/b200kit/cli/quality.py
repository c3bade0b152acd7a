"""`b200 quality compare|list`: a model in fewer bits beside the original, and what was found."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from b200kit.cli.command import INTERRUPTED, JSON, STORE, Command, CommandGroup, Refusal, refusals
from b200kit.cli.deploys import INVENTORY, inventory_of
from b200kit.cli.endpoint import KEY, endpoint
from b200kit.inventory import precision
from b200kit.node.client.message import HttpError
from b200kit.node.client.prompts import source as source_of
from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.verdict import Finding, Status
from b200kit.operations import served
from b200kit.operations.inventory_process import InventoryRefused
from b200kit.quality import asking, divergence, kept
from b200kit.quality.asking import ModelEndpoint, NoAnswer
from b200kit.quality.kept import ServedModel
from b200kit.records.entries import Divergence, QualityComparison
from b200kit.records.store import QUALITY, Records
from b200kit.run import console
from b200kit.store.database import Store

WITHIN, LOSS, UNDECIDED = 0, 1, 2
_CODES = {Status.PASS: WITHIN, Status.FAIL: LOSS}
_WORDS_A_TOKEN = 0.5
"""Words that surely fit into a context, beside the answer: of English, 1.3 tokens; and a margin."""


@click.group("quality", cls=CommandGroup)
def command() -> None:
    """A model in fewer bits, compared with the original before it may serve."""


@command.command(
    "compare",
    cls=Command,
    exit_codes={
        WITHIN: "within the limits: the node's check passes from now on",
        LOSS: "too far from the original",
        UNDECIDED: "not decided, or not compared",
        INTERRUPTED: "interrupted; nothing was recorded",
    },
)
@click.argument("node")
@INVENTORY
@click.option("--reference", required=True, metavar="URL", help="Where the original is served.")
@click.option("--candidate", required=True, metavar="URL", help="Where NODE's model is served.")
@click.option("--reference-model", metavar="MODEL", help="The original's name there; else NODE's.")
@click.option("--requests", type=click.IntRange(8, 10_000), default=128, show_default=True,
              help="Prompts, each sent to both.")  # fmt: skip
@click.option("--output-tokens", type=click.IntRange(4, 4096), default=64, show_default=True,
              help="Of an answer, at most.")  # fmt: skip
@click.option("--prompts", default="texts", show_default=True, metavar="NAME|PATH",
              help="texts (running), or yours: one a line, as JSON in a .jsonl.")  # fmt: skip
@click.option("--key-file", metavar="PATH", help=f"File with NODE's API key; else ${KEY}.")
@click.option("--reference-key-file", metavar="PATH", help="File with the reference's, likewise.")
@JSON
@STORE
def compare(
    node: str, inventory: Path | None, reference: str, candidate: str, reference_model: str | None,
    requests: int, output_tokens: int, prompts: str, key_file: str | None,
    reference_key_file: str | None, as_json: bool, store: Path | None,
) -> int:  # fmt: skip
    """Compare what NODE serves with the original, token by token, and record it.

    Both answer the same prompts greedily. The record holds for the model, its revision, the engine
    and the formats, on every node.
    """
    with refusals(UNDECIDED, InventoryRefused, HttpError):
        known = served.of_node(inventory_of(inventory), node)
        source = source_of(prompts)
        ours = ModelEndpoint(endpoint(candidate, key_file, "quality"), known.key.model)
        name = reference_model or ours.model
        theirs = ModelEndpoint(endpoint(reference, reference_key_file, "quality"), name)
        said = {"reference": _facts(theirs), "candidate": _facts(ours)}
        _require_both(known, said)
        longest = int((known.max_model_len - output_tokens) * _WORDS_A_TOKEN)
        asked = asking.prompts(source, requests, max(longest, 1))
        salt = f"quality-{secrets.token_hex(6)}"
        first, other, again = asyncio.run(
            asking.both(theirs, ours, asked, output_tokens, salt, _progress)
        )
        found, itself = divergence.of(first, other), divergence.of(first[: len(again)], again)
        _require_unlike(divergence.same(first, other), found, itself)
        entry = QualityComparison(
            node, timestamp.now(), known.key, found, itself, said["reference"], said["candidate"],
            source.name, output_tokens, known.engine_version,
        )  # fmt: skip
        Records(QUALITY, Store(store)).append(kept.name_of(known.key), entry)
    finding = kept.judged(known.key, found)
    if as_json:
        console.document(unstructure(entry))
    else:
        console.out(*_lines(finding, found, itself))
    return _CODES.get(finding.status, UNDECIDED)


@command.command("list", cls=Command, exit_codes={WITHIN: "shown", UNDECIDED: "none, or damaged"})
@JSON
@STORE
def show(as_json: bool, store: Path | None) -> None:
    """List the newest comparison of each model, and what the check makes of it."""
    records, found = Records(QUALITY, Store(store)), {}
    with refusals(UNDECIDED, InventoryRefused, HttpError):
        known_records = {name: records.read(name) for name in records.names()}
    if not known_records:
        where = records.store.path
        raise Refusal(f"no comparison in {where} yet: b200 quality compare", UNDECIDED)
    for name, record in known_records.items():
        for newest in record.of(QualityComparison)[-1:]:
            known, found[name] = newest.key, newest
            at = f"{newest.at[:10]} {known.model} {known.revision[:12]} {known.engine}"
            if not as_json:
                console.out(f"{at}: {kept.judged(known, newest.compared).summary}")
    if as_json:
        console.document(unstructure(found))


def _facts(server: ModelEndpoint) -> dict[str, str]:
    return asyncio.run(asking.facts(server))


def _require_both(known: ServedModel, said: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse servers that say they serve something else. Raises NoAnswer."""
    key, ours, theirs = known.key, said["candidate"], said["reference"]
    if not key.lowered:
        raise NoAnswer(f"{key.model} is served as it was published: nothing is to be compared")
    root = ours.get("root", "")
    if root.startswith("/") and key.revision not in root:
        raise NoAnswer(f"{ours['url']} serves {root}, not revision {key.revision}")
    cache = ours.get("kv_cache", known.kv_cache)
    if known.kv_cache != "auto" and not cache.startswith(known.kv_cache):
        raise NoAnswer(f"{ours['url']} keeps its KV cache as {cache}, not {known.kv_cache}")
    cache = theirs.get("kv_cache", "auto")
    if cache not in precision.PLAIN:
        raise NoAnswer(f"{theirs['url']} keeps its KV cache as {cache}: that is no original")


def _require_unlike(is_same: bool, found: Divergence, itself: Divergence) -> None:
    """Refuse what compares nothing. Raises NoAnswer."""
    if is_same:
        raise NoAnswer("both answer alike to the last digit: that is one server, asked twice")
    if itself.kl_nats[1] > found.kl_nats[1]:
        raise NoAnswer(
            f"the reference differs from itself by {itself.kl_nats[1]:.3g} nats, the candidate by "
            f"{found.kl_nats[1]:.3g}: serve it alone, without other requests"
        )


def _lines(finding: Finding, found: Divergence, itself: Divergence) -> Iterator[str]:
    yield f"{found.prompts} prompts, {found.places} tokens compared"
    yield f"the reference with itself: {itself.kl_nats[1]:.3g} nats, {itself.flips[1]:.1%} others"
    yield f"{finding.status.value}: {finding.summary}"
    if finding.remedy:
        yield f"  {finding.remedy}"


def _progress(done: int, of: int) -> None:
    if done % 32 == 0:
        console.err(f"b200 quality: {done} of {of} prompts")
