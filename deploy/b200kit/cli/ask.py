"""`b200 ask NODE TEXT`: one question to the model that a node serves, and its answer."""

from __future__ import annotations

import base64
from pathlib import Path

import click

from b200kit.cli.command import JSON, Command, Refusal
from b200kit.cli.deploys import INVENTORY, PASSWORD, inventory_of, sudo_password
from b200kit.node.client.question import AskedAnswer
from b200kit.node.lib import documents
from b200kit.operations import site_node
from b200kit.operations.inventory_process import InventoryRefused
from b200kit.report.document import milliseconds
from b200kit.run import console, look
from b200kit.run.login import Login
from b200kit.run.look import NotSeen

ANSWERED, NOT_ANSWERED = 0, 1
_SERVING = "/etc/b200kit/serving.json"
_LONGEST = 32_768
"""Bytes of a question: it travels in a command line."""


@click.command(
    "ask",
    cls=Command,
    exit_codes={ANSWERED: "answered", NOT_ANSWERED: "there is no whole answer; one line says why"},
)
@click.argument("node")
@click.argument("text")
@INVENTORY
@PASSWORD
@JSON
def command(node: str, text: str, inventory: Path | None, asks: bool, as_json: bool) -> int:
    """Ask the model on NODE a question, through the node's gateway and with its key.

    The question is sent on the node itself, over your own ssh, so that nothing need be reachable
    from here. At most 256 tokens of an answer are printed; the figures are of this one request.
    """
    question = text.encode()
    if len(question) > _LONGEST:
        raise click.UsageError(f"a question has at most {_LONGEST} bytes")
    try:
        login = site_node.login(inventory_of(inventory), node)
    except InventoryRefused as error:
        raise Refusal(str(error), NOT_ANSWERED) from None
    answer = _asked(login, node, question, sudo_password() if asks else None)
    if as_json:
        console.document(documents.unstructure(answer))
    elif answer.text:
        console.out(*answer.text.strip().splitlines())
    if answer.error:
        raise Refusal(f"{node}: {answer.error}", NOT_ANSWERED)
    console.err(f"{node}: {answer.model}: {_figures(answer)}")
    return ANSWERED


def _asked(login: Login, node: str, question: bytes, password: str | None) -> AskedAnswer:
    arguments = f"ask {_SERVING} {base64.b64encode(question).decode()}"
    try:
        return documents.decode(AskedAnswer, look.program(login, arguments, password))
    except (NotSeen, ValueError) as error:
        raise Refusal(f"{node}: {error}", NOT_ANSWERED) from None


def _figures(answer: AskedAnswer) -> str:
    """What one request measured; a rate needs more than one token."""
    parts = [f"TTFT {milliseconds(answer.ttft_ms)} ms", f"{answer.tokens} tokens"]
    if answer.seconds and answer.ttft_ms is not None and answer.tokens and answer.tokens > 1:
        rest = answer.seconds - answer.ttft_ms / 1000
        parts += [f"{(answer.tokens - 1) / rest:.0f} tokens/s after the first"] if rest > 0 else []
    return ", ".join(parts)
