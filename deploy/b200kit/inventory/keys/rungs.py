"""The rungs of the ladder by which a failed node is mended, in rising order of cost. Pure."""

from __future__ import annotations

from enum import IntEnum

from b200kit.node.state.verdict import Action


class Rung(IntEnum):
    """What can be done to a node; the last is done by hands."""

    RESTART_SERVICES = 1
    RESET_GPUS = 2
    REBOOT = 3
    POWER_CYCLE = 4
    REIMAGE = 5
    REPLACE = 6

    @property
    def word(self) -> str:
        """As documents and people write it: "reset-gpus"."""
        return self.name.lower().replace("_", "-")

    @property
    def key(self) -> str:
        """As an inventory writes it: "reset_gpus"."""
        return self.name.lower()

    @property
    def destructive(self) -> bool:
        """Whether doing it twice costs more than doing it once: it is probed before it is repeated.

        Services are started again at no cost but time.
        """
        return self is not Rung.RESTART_SERVICES

    @classmethod
    def parse(cls, word: object) -> Rung:
        """The rung of a word; raises ValueError for one that is not on the ladder."""
        for rung in cls:
            if word in (rung.word, rung.key):
                return rung
        raise ValueError(f"{word!r} is no rung; there are {', '.join(r.word for r in cls)}")


# The lowest rung that an action of a finding allows. MONITOR asks for nothing.
LEAST: dict[Action, Rung] = {
    Action.RESTART_SERVICE: Rung.RESTART_SERVICES,
    Action.RESET_GPU: Rung.RESET_GPUS,
    Action.REBOOT: Rung.REBOOT,
    Action.POWER_CYCLE: Rung.POWER_CYCLE,
    Action.REPLACE: Rung.REPLACE,
}
