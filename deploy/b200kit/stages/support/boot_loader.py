"""What to do about a kernel command line that is wrong although its drop-in is there.

A reboot is made pending only where it can help: never again and again on a node whose kernel gets
its command line from something else than GRUB.
"""

from __future__ import annotations

from collections.abc import Sequence

from b200kit.converge.stage import Change
from b200kit.node.host import settings_in_force
from b200kit.node.host.settings_in_force import Effect
from b200kit.node.state import drift
from b200kit.node.state.drift import PENDING_REBOOT, File
from b200kit.run.node import Node, StageFailed
from b200kit.stages.support.managed_settings import Managed

_HANDLER = "update-grub"


def changes(node: Node, managed: Managed, drop_in: File | None) -> list[Change]:
    """The changes before the drop-in's own; none where the command line is right.

    Raises StageFailed where nothing of ours would help: another boot loader, or another file.
    """
    wrong = managed.at_boot("cmdline")
    if not wrong:
        return []
    message = "; ".join(f"{effect.name} {effect.text}" for effect in wrong)
    if drop_in is None:
        raise StageFailed(
            f"{message}. It has no update-grub: give the words to its boot loader and reboot "
            f"it, or leave the settings to somebody else (settings = {_none(wrong)})"
        )
    changed = drift.changed_files([drop_in], managed.raw, node.nonce)
    if changed or drift.is_present(PENDING_REBOOT, managed.raw):
        return []
    if drift.is_present(drift.pending_marker(_HANDLER), managed.raw):
        return [_require_reboot()]
    if not _lacking(managed, wrong):
        raise StageFailed(
            f"{message}. GRUB's configuration has what is asked, so the node boots another way or "
            "another file says otherwise (/etc/default/grub): repair that and reboot the node"
        )
    return [_require_reboot(), Change(_HANDLER, _update)]


def _lacking(managed: Managed, wrong: Sequence[Effect]) -> bool:
    """Whether GRUB's configuration misses any of the words; one that was not read does."""
    configured = managed.state.text("host", "grub_cmdline") or ""
    return any(settings_in_force.missing(effect.desired.split(), configured) for effect in wrong)


def _none(effects: Sequence[Effect]) -> str:
    return "{" + ", ".join(f'"{effect.name}": None' for effect in effects) + "}"


def _require_reboot() -> Change:
    """Leave both markers first: a run killed after this is finished by the next."""
    marks = (PENDING_REBOOT, drift.pending_marker(_HANDLER))
    steps = [f"mkdir -p {path.rpartition('/')[0]} && touch {path}" for path in marks]
    return Change("require a reboot", lambda node: _run(node, " && ".join(steps)))


def _update(node: Node) -> None:
    _run(node, f"{_HANDLER} && rm -f {drift.pending_marker(_HANDLER)}")


def _run(node: Node, command: str) -> None:
    node.connected().run(command)
