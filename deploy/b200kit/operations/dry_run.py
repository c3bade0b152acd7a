"""What a plan knows of the reboot before anything was changed: that it comes, and why."""

from __future__ import annotations

from b200kit.converge.stage import nominal_layout
from b200kit.node.state import drift
from b200kit.operations import reboot
from b200kit.run.node import Node
from b200kit.stages import pipeline
from b200kit.stages.pipeline import Checkpoint


def reboot_foreseen(node: Node) -> list[str]:
    """Why the run would reboot the node, were its stages to make the changes they plan."""
    return reboot.reasons(node) or _notified(node)


def _notified(node: Node) -> list[str]:
    layout = nominal_layout(node)
    stages = pipeline.stages(before=Checkpoint.REBOOT)
    files = [file for stage in stages for file in stage.desired(node, layout).files]
    changed = drift.changed_files(files, node.state or {}, node.nonce)
    causes = [file.path for file in changed if "reboot" in file.notify]
    return [f"{', '.join(causes)} changes"] if causes else []
