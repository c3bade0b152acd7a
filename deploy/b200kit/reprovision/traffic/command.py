"""A command of the site's own, run on the controller, for whatever else sends work to a node.

    COMMAND take-out NODE           why stands in the environment, B200_WHY
    COMMAND drained NODE            prints how much is open, a whole number, on its last line
    COMMAND bring-back NODE PERCENT

Exit 0 when it is done; each may be called again. What `drained` prints besides a number cannot be
known, which is never taken for none.
"""

from __future__ import annotations

from b200kit.node.lib.readings import is_digits
from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic.run_command import one_line, run
from b200kit.run.node import Node


class CommandTraffic:
    """The site's own."""

    name = "command"

    def take_out(self, node: Node, why: str) -> str:
        """No new work."""
        run(
            [*node.spec.traffic_command, "take-out", node.name],
            environment={"B200_WHY": one_line(why)},
        )
        return f"{node.spec.traffic_command[0]}: out"

    def drained(self, node: Node) -> int | None:
        """What is open."""
        try:
            output = run([*node.spec.traffic_command, "drained", node.name]).split("\n")
        except ActionFailed:
            return None
        words = [line.strip() for line in output if line.strip()]
        return int(words[-1]) if words and is_digits(words[-1]) else None

    def bring_back(self, node: Node, share_percent: int) -> str:
        """Some of its work, or all."""
        run([*node.spec.traffic_command, "bring-back", node.name, str(share_percent)])
        return f"{node.spec.traffic_command[0]}: back, {share_percent} %"


TRAFFIC = CommandTraffic()
