"""What a directory lies on: a network file system keeps no promise that the store relies on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_SHARED = re.compile(r"nfs|cifs|smb|9p|fuse|sshfs|ceph|gluster|lustre|beegfs|gpfs|ocfs|gfs|afs")
# Of FUSE what containers and disks of this machine are mounted by.
_LOCAL = re.compile(r"fuse\.(fuse-overlayfs|lxcfs)|fuseblk|fusectl")


@dataclass(frozen=True)
class Mount:
    """Where a file system is mounted, and its kind."""

    point: str = "/"
    kind: str = "unknown"

    @property
    def is_shared(self) -> bool:
        """Whether other machines may write to it, too."""
        return bool(_SHARED.search(self.kind)) and not _LOCAL.fullmatch(self.kind)


def mount_of(folder: Path) -> Mount:
    """What a directory is on, of several mounts the uppermost (proc(5), mountinfo)."""
    there, found = folder.resolve(), Mount()
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        words, _, rest = line.partition(" - ")
        point = words.split()[4].replace("\\040", " ")
        if there.is_relative_to(point) and len(point) >= len(found.point):
            found = Mount(point, rest.split()[0])
    return found
