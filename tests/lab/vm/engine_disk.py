"""Real vLLM for the virtual machine: installed here, brought to it as a disk it can only read.

Unpacking two gigabytes of wheels would take an emulated processor an hour. So the environment is
made on this machine, by the commands of b200kit/serving/engine_install.py and at the path the node
has it at (scripts name their interpreter by it), and laid into a file system of its own. The
toolkit finds its stamp there, as on a node that has been given the engine before.
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from tests.lab.mounts import OWN_MOUNTS, remove_tree
from tests.lab.paths import LabError, LabPaths
from tests.lab.shell import Progress, run, timed
from tests.lab.ssh import ssh
from tests.lab.supply.wheels import PYTHON, REQUIREMENTS

SERIAL = "B200ENGINE"
_DEVICE = f"/dev/disk/by-id/virtio-{SERIAL}"
# Debian's, as in the machine: the environment has links to it.
_PYTHON = f"/usr/bin/python{PYTHON}"
_MIB = 3584
_INSTALL = """\
set -e
mount -t tmpfs tmpfs /opt && mkdir -p {place} && mount --bind {tree} {place}
{python} -m venv {place}
PIP_CONFIG_FILE=/dev/null {place}/bin/python -I -m pip install --quiet --no-deps --require-hashes \
    --no-index --no-cache-dir --disable-pip-version-check --find-links {wheels} -r {listed}
echo done > {place}/.complete
"""


def place(lab: LabPaths) -> str:
    """Where the engine lies on a node, as b200kit/serving/engine_install.py names it."""
    listed = (lab.mirror / "wheels" / REQUIREMENTS).read_bytes()
    return f"/opt/vllm/{hashlib.sha256(listed).hexdigest()[:12]}"


def ensure_disk(lab: LabPaths, progress: Progress) -> Path:
    """Return the disk with the engine, made unless it is there. Needs the wheels and Debian 12."""
    target = place(lab)
    image = lab.cache / f"vm-engine-{Path(target).name}.raw"
    if image.exists():
        return image
    if not Path(_PYTHON).exists():
        raise LabError(f"{_PYTHON} is needed to make the machine's engine: apt-get install python3")
    tree, fresh = image.with_suffix(".tree"), image.with_suffix(".new")
    remove_tree(tree)
    tree.mkdir()
    with timed(progress, "vm: vLLM's environment"):
        _install(lab, target, tree)
    with timed(progress, "vm: its disk"):
        fresh.unlink(missing_ok=True)
        options = ["-q", "-F", "-t", "ext4", "-m", "0", "-O", "^has_journal"]
        run(["mke2fs", *options, "-d", tree, fresh, f"{_MIB}M"], timeout=600)
    remove_tree(tree)
    return fresh.rename(image)


def _install(lab: LabPaths, target: str, tree: Path) -> None:
    wheels = lab.mirror / "wheels"
    words = {"place": target, "tree": tree, "python": _PYTHON, "wheels": wheels}
    words["listed"] = wheels / REQUIREMENTS
    script = _INSTALL.format(**{key: shlex.quote(str(word)) for key, word in words.items()})
    run([*OWN_MOUNTS, "sh", "-c", script], timeout=1800)


def mount(lab: LabPaths, name: str) -> None:
    """Have the running machine mount it where the engine belongs, now and at each boot."""
    target = place(lab)
    line = f"{_DEVICE} {target} ext4 ro,nofail 0 0"
    script = f"mkdir -p {target} && echo '{line}' >> /etc/fstab && mount {target}"
    done = ssh(lab, name, script)
    if done.returncode != 0:
        raise LabError(f"{name} does not mount its engine: {done.stderr.strip()}")
