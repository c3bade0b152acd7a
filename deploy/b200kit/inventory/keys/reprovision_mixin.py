"""The keys of a node's inventory data about mending it, a part of b200kit/inventory/spec.py."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.inventory.keys import parsers
from b200kit.inventory.keys.parsers import setting
from b200kit.inventory.keys.reprovision import TRAFFIC, Bmc, Reimage, Reprovision
from b200kit.inventory.keys.rungs import Rung


@dataclass(frozen=True, kw_only=True)
class Mended:
    """How the node is mended when it fails (docs/reprovision.md)."""

    reprovision: Reprovision = setting(
        parsers.nested(Reprovision), "how a failed node is mended and brought back", Reprovision()
    )
    reprovision_ask: str = setting(
        parsers.one_of("mend", "return", *(r.word for r in Rung if r is not Rung.REPLACE)),
        "mend: as the findings ask; a rung: this one at least; return: no act any more, prove the "
        "node as it is and bring it back (hands have done their work, or to end a transaction)",
        "mend",
    )
    reason: str | None = setting(
        parsers.optional(parsers.text), "why a person takes out a node that looks well", None
    )
    traffic: tuple[str, ...] = setting(
        parsers.sequence(parsers.one_of(*TRAFFIC)),
        f"who sends work to the node and is told to stop, of {', '.join(TRAFFIC)}",
        ("haproxy",),
    )
    traffic_command: tuple[str, ...] = setting(
        parsers.sequence(parsers.text),
        "the site's own command, run on the controller with take-out|drained|bring-back NODE [%]",
        (),
    )
    bmc: Bmc | None = setting(
        parsers.optional(parsers.nested(Bmc)),
        "its management controller; None: no power cycle",
        None,
    )
    reimage: Reimage | None = setting(
        parsers.optional(parsers.nested(Reimage)), "who puts a new image on it; None: nobody", None
    )
