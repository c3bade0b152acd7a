"""What the store for models on local disks is called. Pure.

UUIDs follow from the requested disks, so nothing has to be stored, and a re-imaged node recognises
its own (b200kit/stages/support/raid_plan.py).
"""

from __future__ import annotations

import string
import uuid
from collections.abc import Sequence

_SPACE = uuid.UUID("b2000b20-0b20-4b20-8b20-0b2000b2000b")
# What systemd leaves as it is in the name of a unit made from a path (systemd.unit(5)).
_PLAIN = {*string.ascii_letters, *string.digits, ":", "_", "."}


def array_uuid(disks: Sequence[str]) -> str | None:
    """UUID of the array of these disks; None for a single disk, which needs none."""
    return str(uuid.uuid5(_SPACE, "|".join(["array", *disks]))) if len(disks) > 1 else None


def filesystem_uuid(disks: Sequence[str]) -> str | None:
    """UUID of the file system on these disks; None for a mount that is somebody else's."""
    return str(uuid.uuid5(_SPACE, "|".join(["filesystem", *disks]))) if disks else None


def mdadm_uuid(dashed: str) -> str:
    """A UUID as mdadm writes it: four groups of eight digits with colons."""
    digits = dashed.replace("-", "")
    return ":".join(digits[i : i + 8] for i in range(0, 32, 8))


def mount_unit(path: str) -> str:
    r"""systemd's unit of a mount point: "/srv/my-models" -> "srv-my\x2dmodels.mount"."""
    return "-".join(map(_escaped, path.strip("/").split("/"))) + ".mount"


def _escaped(part: str) -> str:
    # No part begins with a dot (b200kit/inventory/keys/parts.py), which would be escaped, too.
    return "".join(c if c in _PLAIN else f"\\x{ord(c):02x}" for c in part)
