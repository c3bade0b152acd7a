"""The levels of remediation for a failed node, in rising order of cost. Pure."""

from __future__ import annotations

from enum import IntEnum

from b200kit.node.state.verdict import Action


class Level(IntEnum):
    """What can be done to a node; the last one is manual."""

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

    @classmethod
    def parse(cls, word: object) -> Level:
        """The level of a name; raises ValueError for any other word."""
        for level in cls:
            if word in (level.word, level.key):
                return level
        raise ValueError(f"{word!r} is no level; there are {', '.join(r.word for r in cls)}")


# The lowest level that can remedy a finding with this action. MONITOR needs none.
MIN_LEVEL: dict[Action, Level] = {
    Action.RESTART_SERVICE: Level.RESTART_SERVICES,
    Action.RESET_GPU: Level.RESET_GPUS,
    Action.REBOOT: Level.REBOOT,
    Action.POWER_CYCLE: Level.POWER_CYCLE,
    Action.REPLACE: Level.REPLACE,
}
