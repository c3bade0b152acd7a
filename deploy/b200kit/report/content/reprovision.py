"""What reprovisioning did with a node: level and reason, each step, the parts, the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from b200kit.node.lib.documents import Malformed, structure
from b200kit.report.document import clean, mapping, read, show, unread
from b200kit.report.html.figure import Table
from b200kit.run.document import TransactionReport

_HEAD = ("at", "from", "to", "action", "outcome")
_NO_STEPS = Table(_HEAD, ())
_LEVELS = {
    "restart-services": "restart the services",
    "reset-gpus": "reset the GPUs",
    "reboot": "reboot the node",
    "power-cycle": "power-cycle the node",
    "reimage": "re-image the node",
    "replace": "replace a part (manual)",
}
_TONES = {"serving": "good", "manual repair": "bad", "quarantined": "bad"}


@dataclass(frozen=True, slots=True)
class Reprovisioned:
    """The section as text; `there` is false where the run neither repaired nor changed the node."""

    there: bool
    title: str = "Reprovisioning"
    why: str = ""
    state: str = ""
    tone: str = "unknown"
    facts: tuple[tuple[str, str], ...] = ()
    steps: Table = _NO_STEPS


def reprovisioned_of(host: object) -> Reprovisioned:
    """Return the reprovisioning of a HostRecord, with its steps from state to state."""
    document = read(host, "reprovision")
    there = mapping(host).get("reprovision") is not None
    if not mapping(document):
        return Reprovisioned(there, unread(document, "nothing was recorded"))
    try:
        found = structure(TransactionReport, document)
    except Malformed as error:
        return Reprovisioned(there, f"unmeasured: {error}")
    return Reprovisioned(
        there=True,
        title="Rollout" if found.change else "Reprovisioning",
        state=clean(found.state),
        tone=_TONES.get(found.state, "unknown"),
        facts=tuple(_facts(found)),
        steps=Table(
            _HEAD,
            tuple(
                tuple(map(clean, (t.at, t.before, t.after, t.action, t.outcome)))
                for t in found.history
            ),
        ),
    )


def _facts(found: TransactionReport) -> Iterator[tuple[str, str]]:
    if change := found.change:
        yield "change", clean(change.title)
        yield "wave", clean(change.wave)
        yield "it ended", clean(change.outcome)
        if change.failed:
            yield "why", clean(change.failed)
    else:
        yield "repair", _LEVELS[found.level.word] if found.level else "none was needed"
        yield "why", show(found.why, absent="nothing blocks it")
        yield "parts to replace", clean(", ".join(found.parts)) or "none named"
        yield "evidence", show(found.evidence, absent="none was collected")
    if out := found.quarantine:
        yield "quarantine", clean(f"since {out.when} by {out.who}: {out.why}")


def line(host: object) -> tuple[str, str]:
    """Return "repair" or "rollout" and what it did in one line for a terminal, or nothing."""
    found = reprovisioned_of(host)
    facts = dict(found.facts)
    if found.why or not found.there:
        return "repair", found.why if found.there else ""
    label = "rollout" if "change" in facts else "repair"
    what = facts.get("change") or facts.get("repair")
    return label, "; ".join(filter(None, [f"{found.state}: {what}", facts.get("why")]))
