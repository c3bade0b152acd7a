"""The keys of a node's inventory data about mending it, a part of b200kit/inventory/spec.py."""

from __future__ import annotations

from typing import Annotated

from b200kit.inventory.keys.reprovision import TRAFFIC, Bmc, Reimage, Reprovision
from b200kit.inventory.keys.rungs import Rung
from b200kit.inventory.keys.types import Keys, Listed, Text, one_of


class Mended(Keys):
    """How the node is mended when it fails (docs/reprovision.md)."""

    reprovision: Reprovision = Reprovision()
    """how a failed node is mended and brought back"""
    reprovision_action: Annotated[
        str, one_of("auto", "return", *(r.word for r in Rung if r is not Rung.REPLACE))
    ] = "auto"
    """auto: as the findings ask; a rung: this one at least; return: no act any more, prove the node
    as it is and bring it back (hands have done their work, or to end a transaction)"""
    reason: Text | None = None
    """why a person takes out a node that looks well"""
    traffic: Listed[Annotated[str, one_of(*TRAFFIC)]] = ("haproxy",)
    """who sends work to the node and is told to stop"""
    traffic_command: Listed[Text] = ()
    """the site's own command, run on the controller with take-out|drained|bring-back NODE [%]"""
    bmc: Bmc | None = None
    """its management controller; None: no power cycle"""
    reimage: Reimage | None = None
    """who puts a new image on it; None: nobody"""
