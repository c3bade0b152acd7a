"""`b200 proof`: what a node says that it has proven, verified anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from b200kit.cli.command import JSON, KNOWN_HOSTS, STORE, Command, CommandGroup, Refusal, refusals
from b200kit.node.lib import documents
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.agent import AgentState
from b200kit.node.state.proof import NodeProof
from b200kit.records import proofs
from b200kit.run import console, signed_proof
from b200kit.store.database import Store

REFUSED, UNREADABLE = 1, 2


@click.group("proof", cls=CommandGroup)
def command() -> None:
    """What a node has proven, signed with its host key: verify it anywhere."""


@command.command(
    "verify",
    cls=Command,
    exit_codes={
        0: "the node proved it, and it holds now",
        REFUSED: "refused, with the reason",
        UNREADABLE: "the proof, its signature, the pinned keys or the store cannot be read",
    },
)
@click.argument("file", type=click.Path(path_type=Path), metavar="PATH")
@click.option(
    "--signature", type=click.Path(path_type=Path), metavar="PATH", help="Default: PATH.sig."
)
@click.option(
    "--node", metavar="NODE", help="Of which node it must be; by default the one that it names."
)
@click.option(
    "--name",
    metavar="NAME",
    help="What the node is called in the known_hosts file, as [ADDRESS]:PORT.",
)
@KNOWN_HOSTS
@STORE
@JSON
def verify(
    file: Path,
    signature: Path | None,
    node: str | None,
    name: str | None,
    known_hosts: Path,
    store: Path | None,
    as_json: bool,
) -> None:
    """Say whether PATH, a node's agent.json, is what that node proved, and still holds."""
    if name and not node:
        # Whose proof it is would be what the proof itself says, signed by whatever key that is.
        raise click.UsageError("--name needs --node: which node is called so there?")
    try:
        content = documents.content(file)
        signed = documents.content(signature or file.with_name(f"{file.name}.sig"))
        state = _read(file, content)
        proof = _verified(state, content, signed, node, name, known_hosts.expanduser(), store)
    except OSError as error:
        raise Refusal(error, UNREADABLE) from None
    except ValueError as error:
        raise Refusal(f"{file}: {error}", REFUSED) from None
    console.document(unstructure(proof)) if as_json else console.out(_summary(proof))


def _read(file: Path, content: bytes) -> AgentState:
    try:
        return documents.decode(AgentState, content)
    except ValueError as error:
        raise Refusal(f"{file}: {error}", UNREADABLE) from None


def _verified(
    state: AgentState, content: bytes, signed: bytes, node: str | None, name: str | None,
    hosts: Path, store: Path | None,
) -> NodeProof:  # fmt: skip
    """The proof. Raises ValueError: refused; OSError: not read."""
    proof = state.proof
    if proof is None:
        raise ValueError("no proof is issued there")
    if node is not None and node != proof.node:
        raise ValueError(f"it is the proof of {proof.node}, not of {node}")
    allowed = signed_proof.pinned(hosts, proof.node, name)
    if not (key := signed_proof.signer(content, signed, proof.node, allowed)):
        raise ValueError(f"not signed by {proof.node}: its content or its signature is not its own")
    if why := proofs.problem(proof, datetime.now(UTC)):
        raise ValueError(why)
    sha256 = hashlib.sha256(content).hexdigest()
    if why := proofs.replayed(Store(store), proof.node, key, proof.sequence, sha256):
        raise ValueError(why)
    return proof


def _summary(proof: NodeProof) -> str:
    gpus, kinds = proof.serving.gpus, ", ".join(one.kind for one in proof.required)
    worth = proof.validity()
    until = f"for {worth.left_s:.0f} s from when it was issued"
    return f"{proof.node}: {worth.standing} {until} ({kinds}); {gpus} GPUs serve under it"


@command.command(
    "signers", cls=Command, exit_codes={0: "printed", UNREADABLE: "no key is pinned for a node"}
)
@click.argument("nodes", nargs=-1, required=True, metavar="NODE[=NAME]...")
@KNOWN_HOSTS
def signers(nodes: Sequence[str], known_hosts: Path) -> None:
    """Print allowed signers, with which `ssh-keygen -Y verify` alone verifies proofs of nodes.

    NAME is what a node is called in the known_hosts file, where that is not its own name.
    """
    with refusals(UNREADABLE):
        for one in nodes:
            node, _, name = one.partition("=")
            found = signed_proof.pinned(known_hosts.expanduser(), node, name or None)
            console.out(found.rstrip("\n"))
