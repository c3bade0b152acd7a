"""A new image for a simulated node: a bare disk and a host key that nobody has seen before.

Its public half goes to whoever requested the image, and to nobody else: known_hosts is not
touched, as no provisioning system could.
"""

from __future__ import annotations

from pathlib import Path

from tests.lab import hosts, ssh
from tests.lab.lab import known
from tests.lab.paths import LabPaths
from tests.lab.shell import Progress, run
from tests.lab.state import host_entry, lab_lock, read_state


def reimage(name: str, progress: Progress, act: str = "") -> str:
    """Put a new image on a host; returns its public host key, "type base64".

    One that was begun for the same *act* before is gone on with.
    """
    lab = known(name)
    with lab_lock(lab):
        key, begun = lab.host_keys / name, lab.host_keys / f"{name}.act"
        if act and begun.exists() and begun.read_text() == act and hosts.is_running(name):
            progress(f"{name}: has this image already")
        else:
            _reimage(lab, name, key, progress)
            begun.write_text(act)
        public = key.with_suffix(".pub").read_text(encoding="utf-8")
        trusted = lab.own / f"known_hosts.{name}"
        trusted.write_text(ssh.known_hosts_text([name], public), encoding="utf-8")
        ssh.wait_for_ssh(lab, name, known_hosts=trusted)
        trusted.unlink()
    progress(f"{name}: answers with its new host key")
    return " ".join(public.split()[:2])


def _reimage(lab: LabPaths, name: str, key: Path, progress: Progress) -> None:
    entry = host_entry(read_state(lab), name) or {}
    lab.host_keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in (key, key.with_suffix(".pub"), key.with_suffix(".act")):
        old.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key])
    progress(f"{name}: power off, disk erased")
    hosts.create(lab, name, str(entry["scenario"]), "reimage")
    progress(f"{name}: image written, booting")
