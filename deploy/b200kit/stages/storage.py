"""Storage: the file system that models lie on, of local disks or a mount that must be there.

Only blank disks are taken (b200kit/stages/support/raid_plan.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from b200kit.converge.stage import Change, DesiredState, Stage, converge
from b200kit.inventory.keys.parts import Storage
from b200kit.inventory.keys.storage import array_uuid, filesystem_uuid, mdadm_uuid, mount_unit
from b200kit.node.placement.layout import Replica
from b200kit.node.state.drift import File, NodeUnit, Package
from b200kit.node.weights.manifest import STAMP
from b200kit.run.node import Node, StageFailed
from b200kit.run.render import render
from b200kit.stages.serving import model_dir
from b200kit.stages.support import raid_plan
from b200kit.stages.support.raid_plan import RaidRefusal, RaidStep

_MDADM = "/etc/mdadm/mdadm.conf.d/b200kit.conf"
_LOG = "/var/log/b200kit-storage.log"
_TOOLS = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """The tools, the array's name at boot, and the unit that mounts it; nothing when not asked."""
    del layout
    storage = node.spec.storage
    if storage is None:
        return DesiredState()
    request = {"storage": {"mount": storage.mount, "disks": list(storage.disks)}}
    if not storage.disks:
        return DesiredState(observe_request=request)
    return DesiredState(
        files=tuple(_files(storage)),
        packages=tuple(_packages(storage)),
        units=(NodeUnit(mount_unit(storage.mount)),),
        probe_files=(storage.mount,),
        observe_request=request,
    )


def expected(node: Node) -> dict[str, Any]:
    """What the gate judges: mount, disks, and room until the model is there."""
    storage = node.spec.storage
    if storage is None:
        return {"storage": None}
    return {
        "storage": {
            "mount": storage.mount,
            "disks": list(storage.disks),
            "room_bytes": storage.min_free_gib << 30,
            "stamp": f"{model_dir(node)}/{STAMP}",
        }
    }


def _packages(storage: Storage) -> list[Package]:
    tools = [Package(_TOOLS[storage.filesystem])]
    return [Package("mdadm"), *tools] if len(storage.disks) > 1 else tools


def _files(storage: Storage) -> list[File]:
    unit = render(
        "systemd/models.mount.j2",
        storage=storage,
        device=f"/dev/disk/by-uuid/{filesystem_uuid(storage.disks)}",
    )
    path = f"/etc/systemd/system/{mount_unit(storage.mount)}"
    files = [File(path, unit, notify=("daemon-reload",))]
    uuid = array_uuid(storage.disks)
    if uuid:
        content = render("host/mdadm.conf.j2", label=storage.label, uuid=mdadm_uuid(uuid))
        files.append(File(_MDADM, content))
    return files


def plan(node: Node) -> list[Change]:
    """Tools, disks, mount, rights; a refusal before any of it."""
    storage = node.spec.storage
    if storage is None:
        return []
    try:
        todo = raid_plan.steps(storage, (node.state or {}).get("storage"))
    except RaidRefusal as refused:
        raise StageFailed(str(refused)) from None
    target = desired(node, ())
    changes = converge(node, DesiredState(packages=target.packages))
    for step in todo:
        changes.append(Change(step.what, partial(_do, step=step), final=True))
    mounting = converge(node, DesiredState(files=target.files, units=target.units))
    changes += mounting
    if storage.disks and (todo or mounting or _rights(storage, node.state or {})):
        hidden = _hidden(node.state or {})
        what = f"give {storage.mount} to {storage.owner}, {storage.mode}{hidden}"
        changes.append(Change(what, partial(_give, storage=storage)))
    return changes


def _hidden(state: dict[str, Any]) -> str:
    """Says that something lies where the store is mounted now."""
    reading = state.get("storage") or {}
    lying = reading.get("entries")
    if reading.get("mount") is not None or not isinstance(lying, int) or not lying:
        return ""
    return f"; it hides {lying} names that lie in the directory below it"


def _rights(storage: Storage, state: dict[str, Any]) -> bool:
    """Whether owner or mode of the mounted directory differ, or are not known."""
    observed = (state.get("files") or {}).get(storage.mount) or {}
    return (observed.get("owner"), observed.get("mode")) != (storage.owner, storage.mode)


def _do(node: Node, step: RaidStep) -> None:
    node.connected().run_logged(step.script, _LOG)


def _give(node: Node, storage: Storage) -> None:
    # Only what is mounted: the directory below it is the system's.
    where = storage.mount
    give = f"chown {storage.owner} {where} && chmod {storage.mode} {where}"
    node.connected().run(f"mountpoint -q {where} && {give}")


STAGE = Stage(name="storage", desired=desired, plan=plan)
