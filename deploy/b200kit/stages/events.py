"""Events: what happens on the node is told to a command of the site's.

Off unless the inventory has `events`; then without files and units. The configuration comes before
the agent starts, so that the first look has somebody to tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from b200kit.converge.stage import Change, DesiredState, Stage, converge, removal
from b200kit.node.lib import documents
from b200kit.node.placement.layout import Replica
from b200kit.node.state.drift import File, NodeUnit
from b200kit.node.status.hook import CONFIG, HookPlan
from b200kit.run.node import Node
from b200kit.run.remote import INSTALLED
from b200kit.run.render import render

UNIT = "b200-hook.service"
_PATH = f"/etc/systemd/system/{UNIT}"
_PATHS = (_PATH, str(CONFIG))


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """The command, and the unit that tells it; nothing where there is none."""
    del layout
    events = node.spec.events
    if node.headless or not events:
        return DesiredState(absent_files=_PATHS)
    plan = documents.to_bytes(HookPlan(tuple(events.command), events.deadline_s))
    unit = render(f"systemd/{UNIT}.j2", program=INSTALLED)
    # The words of a command may be secret.
    files = (
        File(str(CONFIG), plan, 0o600, secret=True),
        File(_PATH, unit, notify=(f"restart:{UNIT}",)),
    )
    return DesiredState(files=files, units=(NodeUnit(UNIT),))


def plan(node: Node) -> list[Change]:
    """Tell the command of the inventory, and no other."""
    target = desired(node, ())
    return [*removal(node, target), *converge(node, target)]


STAGE = Stage(name="events", desired=desired, plan=plan)
