"""The keys of a node's inventory data about mending it, a part of deploy/core/spec.py."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.core import fields
from deploy.core.fields import setting
from deploy.core.rungs import Rung
from deploy.core.spec_reprovision import TRAFFIC, Bmc, Reimage, Reprovision


@dataclass(frozen=True, kw_only=True)
class Mended:
    """How the node is mended when it fails (docs/reprovision.md)."""

    reprovision: Reprovision = setting(
        fields.nested(Reprovision), "how a failed node is mended and brought back", Reprovision()
    )
    reprovision_ask: str = setting(
        fields.one_of("mend", "return", *(r.word for r in Rung if r is not Rung.REPLACE)),
        "mend: as the findings ask; a rung: this one at least; return: no act any more, prove the "
        "node as it is and bring it back (hands have done their work, or to end a transaction)",
        "mend",
    )
    reason: str | None = setting(
        fields.optional(fields.text), "why a person takes out a node that looks well", None
    )
    traffic: tuple[str, ...] = setting(
        fields.sequence(fields.one_of(*TRAFFIC)),
        f"who sends work to the node and is told to stop, of {', '.join(TRAFFIC)}",
        ("haproxy",),
    )
    traffic_command: tuple[str, ...] = setting(
        fields.sequence(fields.text),
        "the site's own command, run on the controller with take-out|drained|bring-back NODE [%]",
        (),
    )
    bmc: Bmc | None = setting(
        fields.optional(fields.nested(Bmc)), "its management controller; None: no power cycle", None
    )
    reimage: Reimage | None = setting(
        fields.optional(fields.nested(Reimage)), "who puts a new image on it; None: nobody", None
    )
