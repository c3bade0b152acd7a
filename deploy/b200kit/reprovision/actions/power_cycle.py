"""Power cycle: off by its management controller, observed off, on again, and a new boot."""

from __future__ import annotations

import time
from typing import Any

from b200kit.inventory.keys.reprovision import Bmc
from b200kit.operations import reboot
from b200kit.reprovision import power
from b200kit.reprovision.actions import ActionFailed, ActionRefused, Say
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.power import OFF, ON, Power
from b200kit.run.node import Node, duration
from b200kit.run.remote import RemoteError

AFTER = "power cycle"
_POLL_S = 1.0
# How many times in a row a controller may not answer while it switches; some are busy then.
_PATIENCE = 5


class PowerCycle:
    """See b200kit.reprovision.actions.RemediationAction."""

    def facts(self, node: Node) -> dict[str, Any]:
        """Asks the controller before anything is done, so that a wrong password costs nothing."""
        return {"power": power.of(node).state(), "boot_id": reboot.boot_id_or_none(node)}

    def probe(self, node: Node, intent: IntentLine) -> str | None:
        """Another boot than the intent's answers; any boot does where none answered then.

        A node that has power and does not answer may be booting from the first time, so it gets the
        level's whole time before its power is switched again.
        """
        end = time.monotonic() + node.spec.reprovision.deadlines.power_cycle
        switch: Power | None = None
        while (now := reboot.boot_id_or_none(node)) is None:
            switch = switch or power.of(node)
            if switch.state() == OFF or time.monotonic() > end:
                return None
            time.sleep(_POLL_S)
        if now == intent.boot_id:
            return None
        return "already done: the node runs another boot than the one that was to end"

    def perform(self, node: Node, intent: IntentLine, say: Say) -> str:
        """Ends with a node that answers; one that was off already is switched on."""
        switch, bmc = power.of(node), power.bmc_of(node)
        started = time.monotonic()
        how = "found off" if switch.state() == OFF else _off(switch, bmc, say)
        switch.switch_on()
        _await(switch, ON, bmc.switch_s, "received the command to switch on")
        say(f"{how}, on again; waiting for the node")
        back = self._back(node, intent)
        node.state = None
        return f"{how}, on again, {back}; {duration(time.monotonic() - started)} in all"

    def _back(self, node: Node, intent: IntentLine) -> str:
        limit = node.spec.reprovision.deadlines.power_cycle
        try:
            return reboot.wait_until_back(node, intent.boot_id or None, limit, AFTER)
        except reboot.OtherKey as error:
            raise ActionRefused(str(error)) from None
        except RemoteError as error:
            raise ActionFailed(str(error)) from None


def _off(switch: Power, bmc: Bmc, say: Say) -> str:
    """Shut it down, or cut the power where that is not offered or not heard."""
    if bmc.graceful_s:
        try:
            switch.shut_down()
            _await(switch, OFF, bmc.graceful_s, "received the command to shut down")
            return "shut down"
        except ActionFailed as deaf:
            say(f"{deaf}; cutting the power")
    switch.cut()
    _await(switch, OFF, bmc.switch_s, "received the command to cut the power")
    return "power cut"


def _await(switch: Power, state: str, limit_s: float, after: str) -> None:
    """Ask until the controller reports *state*; ActionFailed when it never does."""
    end, silent, observed = time.monotonic() + limit_s, 0, "nothing"
    while True:
        try:
            observed, silent = switch.state(), 0
        except ActionRefused:
            silent += 1
            if silent >= _PATIENCE:
                raise
        if observed == state:
            return
        if time.monotonic() > end:
            raise ActionFailed(
                f"power is still {observed} {duration(limit_s)} after its controller {after}"
            )
        time.sleep(_POLL_S)


ACTION = PowerCycle()
