"""A run without what names a site, for a vendor: fails closed. Pure.

Names, serial numbers, UUIDs, addresses and every word that b200kit's own sources do not have are
replaced, as `b200 bundle` does. What is left is searched for each identity of the run and for each
address of the original; one that is found makes the copy an error, not a file.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any

from b200kit.node.acceptance.folder import LINES, PLAN, VERDICT
from b200kit.node.lib.documents import LARGE, parse
from b200kit.node.state.acceptance import (
    AcceptancePlan,
    AcceptedMachine,
    Floor,
    MetricValue,
    SegmentLine,
    Step,
    Tool,
)
from b200kit.node.state.verdict import Finding, Verdict
from b200kit.records.pseudonyms import Pseudonyms
from b200kit.records.sanitised import dumps

_KINDS = (
    AcceptancePlan,
    SegmentLine,
    Step,
    AcceptedMachine,
    Tool,
    MetricValue,
    Floor,
    Verdict,
    Finding,
)
_FIELDS = {one.name for kind in _KINDS for one in fields(kind)}
_SHORTEST = 3
"""Of an identity that is looked for in the copy: a shorter one stands in any number."""
_ADDRESS = re.compile(r"(?<![0-9a-fA-F.:])(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}(?![0-9a-fA-F:])")
_NUMBERS = re.compile(r"(?<![0-9.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9.])")


@dataclass(frozen=True)
class SanitisedRun:
    """The files of the copy by name, and how often what was replaced."""

    files: Mapping[str, str]
    counts: Mapping[str, int]


def sanitised(
    files: Mapping[str, str],
    plan: AcceptancePlan,
    lines: Sequence[SegmentLine],
    words: Set[str],
    key: bytes,
) -> SanitisedRun:
    """A copy of plan, lines, verdict and raw outputs. Raises ValueError: an identity would be left.

    The seal is not part of it: what the signature was under is gone.
    """
    names = set(_identities(plan, lines))
    made = Pseudonyms(key, words, names)
    copies = {name: _copied(name, text, made) for name, text in files.items()}
    # An address keeps its own shape: that of all interfaces and of this machine say nothing.
    wanted = names | {found for text in files.values() for found in _addresses(text)}
    for name, text in copies.items():
        low = text.lower()
        if left := next((one for one in sorted(wanted) if _stands_in(one.lower(), low)), None):
            kind = "an address" if left not in names else "a name or serial number"
            raise ValueError(f"{name}: {kind} of the run would be left in the copy ({left})")
    return SanitisedRun(copies, dict(made.counts))


def _identities(plan: AcceptancePlan, lines: Sequence[SegmentLine]) -> Iterator[str]:
    machine = plan.machine
    every = (plan.node, plan.node.partition(".")[0], plan.id, machine.serial, *machine.gpus,
             *machine.gpu_serials, *(line.boot_id for line in lines))  # fmt: skip
    return (one for one in every if len(one) >= _SHORTEST)


def _addresses(text: str) -> Iterator[str]:
    """Hardware addresses and IPv4 addresses of a network."""
    yield from _ADDRESS.findall(text)
    for found in _NUMBERS.findall(text):
        try:
            known = ipaddress.IPv4Address(found)
        except ValueError:
            continue
        if not (known.is_loopback or known.is_unspecified):
            yield found


def _stands_in(identity: str, text: str) -> bool:
    return re.search(rf"(?<![^\W_]){re.escape(identity)}(?![^\W_])", text) is not None


def _copied(name: str, text: str, made: Pseudonyms) -> str:
    if name in (PLAN, VERDICT):
        return dumps(_replaced(parse(text, LARGE), made))
    if name == LINES:
        each = (_replaced(parse(line, LARGE), made) for line in text.splitlines())
        return "".join(json.dumps(line, sort_keys=True) + "\n" for line in each)
    return "".join(made.text(line) + "\n" for line in text.splitlines())


def _replaced(value: Any, made: Pseudonyms) -> Any:
    """A document with its texts and keys replaced; numbers name nothing."""
    if isinstance(value, dict):
        keys = {key: key if key in _FIELDS else made.text(key) for key in value}
        return {keys[key]: _replaced(below, made) for key, below in value.items()}
    if isinstance(value, list):
        return [_replaced(below, made) for below in value]
    return made.text(value) if isinstance(value, str) else value
