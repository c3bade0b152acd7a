"""A real Slurm on lab nodes: Debian's slurmctld, slurmd and munge, under the nodes' own systemd.

The first node has the controller; every node is a compute node under its own name.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence
from pathlib import Path

from tests.lab import more_packages
from tests.lab.hosts import enter_arguments
from tests.lab.lab import run
from tests.lab.paths import host_address, lab_paths

_PACKAGES = ("munge", "slurm-client", "slurmctld", "slurmd")
_PATIENCE_S = 60
_CLIENTS = ("scontrol", "squeue", "sbatch", "scancel")
# ReturnToService=0 is Slurm's default: a node that was DOWN stays so until somebody resumes it. A
# hidden partition is one that not everybody's squeue lists.
_CONF = """ClusterName=lab
SlurmctldHost={controller}({address})
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=0
SlurmdTimeout={patience}
MessageTimeout=3
KillWait=1
SchedulerParameters=sched_min_interval=0
PartitionName=b200 Nodes=ALL Default=YES
PartitionName=hidden Nodes=ALL Hidden=YES
"""
# With the machine's own choice slurmd refuses to start where control groups are of both versions.
_CGROUP = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"


def install(names: Sequence[str]) -> None:
    """Install and start Slurm on these nodes."""
    lab = lab_paths()
    words = {"controller": names[0], "address": host_address(names[0])}
    conf = _CONF.format(patience=_PATIENCE_S, **words)
    conf += "".join(f"NodeName={n} NodeAddr={host_address(n)} CPUs=1\n" for n in names)
    files = {
        "etc/slurm/slurm.conf": conf,
        "etc/slurm/cgroup.conf": _CGROUP,
        "etc/munge/munge.key": secrets.token_hex(64),
    }

    for name in names:
        for path, text in files.items():
            place = lab.host(name) / "root" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        (lab.host(name) / "root/etc/munge/munge.key").chmod(0o600)
    # The packages' own scripts own the key, make the directories and start the services.
    more_packages.install(names, "slurm", _PACKAGES)


def configure(names: Sequence[str], **options: object) -> None:
    """Set lines of slurm.conf, from now on; None removes one."""
    script = "".join(
        f"sed -i '/^{key}=/d' $conf; " + (f"echo '{key}={value}' >> $conf; " if value else "")
        for key, value in options.items()
    )
    for name in names:
        run(name, ["sh", "-c", f"conf=/etc/slurm/slurm.conf; {script}"])
    run(names[0], ["scontrol", "reconfigure"])


def down_after(names: Sequence[str], seconds: int = _PATIENCE_S) -> None:
    """Have a node DOWN after this time without an answer, from now on."""
    configure(names, SlurmdTimeout=seconds)


def clients(name: str, folder: Path) -> None:
    """Put Slurm's programs into *folder*, as an administrator's machine has them: they run on the
    node of this name, with what they are given and the caller's environment.
    """
    for program in _CLIENTS:
        call = shlex.join(["nsenter", *enter_arguments(name), "--", program])
        (folder / program).write_text(f'#!/bin/sh\nexec {call} "$@"\n')
        (folder / program).chmod(0o755)
