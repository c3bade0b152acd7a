"""The figures of the GPU that a node has, where its hardware data lists several. Pure."""

from __future__ import annotations

from b200kit.node.state.expectation import Expectation
from b200kit.node.state.view import StateView


def of_its_gpu(expect: Expectation, state: StateView) -> Expectation:
    """The expectation with `hardware.gpus` of the node's GPU laid over what holds for all.

    The entry's figures replace those of the same name, and its checks that are not applicable are
    added. Where the bus was not read, or shows several kinds of GPU or one without an entry, what
    holds for all is expected.
    """
    gpus = state.known_items("pci", "gpus")
    ids = {f"{gpu.known(str, 'vendor')}:{gpu.known(str, 'device')}" for gpu in gpus}
    hardware = expect.known(dict, "hardware") or {}
    entry = expect.at("hardware", "gpus", *ids) if len(ids) == 1 else None
    if entry is None or entry.known(dict, "expect") is None:
        return expect
    laid = {
        part: {**(expect.known(dict, "hardware", part) or {}), **(entry.known(dict, part) or {})}
        for part in ("expect", "not_applicable")
    }
    document = expect.known(dict) or {}
    return Expectation({**document, "hardware": {**hardware, **laid}})
