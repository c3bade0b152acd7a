"""A root file system of the user's, as nodes of the lab: `B200_LAB_ROOTFS=FILE b200 lab up`.

The file is an archive that tar reads, such as Ubuntu's noble-server-cloudimg-amd64-root.tar.xz. It
must have systemd, an SSH server and Python. Its packages come from the archives that it names
itself, over this machine's network.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from pathlib import Path

from b200kit.catalog import systems
from tests.lab.mounts import OWN_MOUNTS, remove_tree
from tests.lab.paths import LabError
from tests.lab.shell import run
from tests.lab.supply.systems import System

VARIABLE = "B200_LAB_ROOTFS"
NEEDED = ("usr/lib/systemd/systemd", "usr/sbin/sshd", "usr/bin/python3", "usr/bin/apt-get")
_RELEASE = ("usr/lib/os-release", "./usr/lib/os-release")
# The tree itself stays as it is: apt works in a copy-on-write layer of its own, which goes with it.
_FETCH = """
set -e
mount -t tmpfs none "$2" && mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay none -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
mount --bind "$3" "$2/root/mnt" && mount -t proc none "$2/root/proc"
rm -f "$2/root/etc/resolv.conf" && cp -L /etc/resolv.conf "$2/root/etc/resolv.conf"
for list in "$2/root/etc/b200-lab/sources"/*; do
  case "$list" in
    *.list|*.sources) cp "$list" "$2/root/etc/apt/sources.list.d/";;
    *) cp "$list" "$2/root/etc/apt/";;
  esac
done
shift 3
chroot "$B200_TREE" sh -c 'apt-get -q update && apt-get -q install --download-only \
  --no-install-recommends -y -o Dir::Cache::archives=/mnt -o APT::Sandbox::User=root "$@"' sh "$@"
"""


def named() -> System | None:
    """The system of the file that the environment names; None where it names none."""
    word = os.environ.get(VARIABLE)
    if not word:
        return None
    file = Path(word)
    if not file.is_file():
        raise LabError(f"{VARIABLE}={word} is no file: give an archive of a root file system")
    with file.open("rb") as raw:
        digest = hashlib.file_digest(raw, "sha256").hexdigest()
    return System(_key(file), digest=digest)


def _key(file: Path) -> str:
    """Which system of the catalogue it is, by its os-release."""
    for member in _RELEASE:
        done = run(["tar", "-xOf", file, member], check=False)
        if done.returncode == 0:
            break
    release = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    words = {key: " ".join(shlex.split(value)) for key, value in release.items()}
    for key, system in systems.load().items():
        if (words.get("ID"), words.get("VERSION_ID")) == (system.id, system.version):
            return key
    what = words.get("PRETTY_NAME") or f"without {_RELEASE[0]}"
    raise LabError(f"{VARIABLE}={file} is {what}: known are {', '.join(systems.load())}")


def unpack(target: Path, system: System) -> None:
    """Unpack the file, and keep its apt sources where `fetch` finds them."""
    target.mkdir(parents=True)
    file = Path(os.environ.get(VARIABLE) or "")
    if not file.is_file():
        raise LabError(f"{system.title} is not unpacked yet: name its file in {VARIABLE}")
    run(["tar", "--numeric-owner", "--xattrs", "-xpf", file, "-C", target], timeout=1800)
    lacking = [f"/{path}" for path in NEEDED if not os.path.lexists(target / path)]
    if lacking:
        raise LabError(f"{file} has no {', '.join(lacking)}: it cannot be a node")
    kept = target / "etc/b200-lab/sources"
    kept.mkdir(parents=True)
    apt = target / "etc/apt"
    for source in (apt / "sources.list", *(apt / "sources.list.d").glob("*")):
        if source.is_file():
            shutil.copy2(source, kept)
    # Every report has this name.
    release = target / "usr/lib/os-release"
    lines = release.read_text().splitlines()
    named = [f'PRETTY_NAME="{system.title}"' if w.startswith("PRETTY_NAME=") else w for w in lines]
    release.write_text("\n".join(named) + "\n")


def fetch(base: Path, packages: tuple[str, ...], archives: Path) -> None:
    """Fetch packages, with what they need beyond the tree, by the tree's own apt."""
    work = archives.with_name("layer")
    work.mkdir()
    words: list[str | Path] = ["sh", "-c", _FETCH, "sh", base, work, archives, *packages]
    run([*OWN_MOUNTS, *words], timeout=1800, env={"B200_TREE": str(work / "root")})
    remove_tree(work)
