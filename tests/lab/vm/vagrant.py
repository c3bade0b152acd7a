"""The same machine for Vagrant: its box, its seed, and its place among the lab's nodes."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.lab.inventory import connection, node
from tests.lab.paths import LabError, LabPaths, lab_paths
from tests.lab.seed import check_scenario
from tests.lab.shell import Progress, ensure_root, run, timed
from tests.lab.state import lab_lock, read_state, write_state
from tests.lab.vm import disk, vm
from tests.lab.vm.image import image
from tests.lab.vm.recipe import DISK_MIB
from tests.lab.vm.seed import write_seed

ROOT = Path(__file__).resolve().parents[3]
MACHINE = "node"
"""The machine's name in the Vagrantfile."""
NAME = "b200-vagrant"
PYINFRAS_FILE = "@vagrant.json"
"""Where pyinfra's own @vagrant connector looks for data of the machines, by name."""


def directory(lab: LabPaths) -> Path:
    """Where seed, box and known_hosts are; the Vagrantfile reads the seed there."""
    return lab.root / "vagrant"


def make_box(scenario: str, progress: Progress) -> Path:
    """Bring up the mirror and make the box for libvirt, and the seed that VirtualBox needs."""
    ensure_root()
    lab = lab_paths()
    check_scenario(scenario)
    with lab_lock(lab):
        before = read_state(lab)
        services = vm.prepare(lab, progress)
        write_state(lab, {**services, "hosts": before.get("hosts", [])})
        directory(lab).mkdir(exist_ok=True)
        seed = directory(lab) / "seed.tar"
        write_seed(lab, scenario, seed)
        with timed(progress, "vagrant: the box"):
            return _pack(image(lab), seed, directory(lab) / "node.box")


def _pack(image: Path, seed: Path, box: Path) -> Path:
    """Write the box: the image with the seed on its disk, as vagrant-libvirt wants it."""
    with tempfile.TemporaryDirectory(prefix="b200-box-", dir=box.parent) as scratch:
        raw, qcow2 = Path(scratch, "disk.raw"), Path(scratch, "box.img")
        run(["cp", "--sparse=always", image, raw])
        disk.put_file(raw, seed, "/var/lib/b200-vm/seed.tar")
        run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, qcow2])
        raw.unlink()
        gibibytes = -(-DISK_MIB // 1024)
        about = {"provider": "libvirt", "format": "qcow2", "virtual_size": gibibytes}
        Path(scratch, "metadata.json").write_text(json.dumps(about), encoding="utf-8")
        fresh = box.with_suffix(".new")
        with tarfile.open(fresh, "w") as archive:
            for path in (Path(scratch, "metadata.json"), qcow2):
                archive.add(path, path.name)
    os.replace(fresh, box)
    return box


def adopt() -> dict[str, Any]:
    """Make the machine that Vagrant has brought up a node of the lab; returns its entry.

    `inventories/lab.py` finds it afterwards, and `pyinfra @vagrant/node` has its data.
    """
    lab = lab_paths()
    state = read_state(lab)
    if not state:
        raise LabError("there is no mirror for it: `make vagrant-up` makes box and mirror first")
    place = ssh_config_values(_ssh_config())
    entry = {
        "name": NAME,
        "address": place["HostName"],
        "port": int(place["Port"]),
        "scenario": "healthy",
        "kind": "vagrant",
        "console": "`virsh console`, or the window of VirtualBox",
        "known_hosts": str(directory(lab) / "known_hosts"),
    }
    _pin(lab, entry)
    with lab_lock(lab):
        others = [host for host in state.get("hosts", []) if host["name"] != NAME]
        write_state(lab, {**state, "hosts": [*others, entry]})
    _write_data(read_state(lab), entry)
    return entry


def forget() -> None:
    """Take the machine out of the lab again."""
    lab = lab_paths()
    with lab_lock(lab):
        state = read_state(lab)
        if state:
            others = [host for host in state.get("hosts", []) if host["name"] != NAME]
            write_state(lab, {**state, "hosts": others})
    (ROOT / PYINFRAS_FILE).unlink(missing_ok=True)


def _ssh_config() -> str:
    if shutil.which("vagrant") is None:
        raise LabError("vagrant is not installed: apt-get install vagrant vagrant-libvirt")
    return run(["vagrant", "ssh-config", MACHINE], cwd=ROOT, timeout=120).stdout


def ssh_config_values(text: str) -> dict[str, str]:
    """Return what an ssh_config of one host says, by key."""
    pairs = (line.strip().partition(" ") for line in text.splitlines() if line.strip())
    return {key: value.strip().strip('"') for key, _, value in pairs}


def _pin(lab: LabPaths, entry: dict[str, Any]) -> None:
    """Write known_hosts for it: the host key that its seed brought, and no other."""
    key = " ".join(lab.host_key.with_suffix(".pub").read_text(encoding="utf-8").split()[:2])
    address, port = entry["address"], entry["port"]
    name = address if port == 22 else f"[{address}]:{port}"
    Path(entry["known_hosts"]).write_text(f"{name} {key}\n", encoding="utf-8")


def _write_data(state: dict[str, Any], entry: dict[str, Any]) -> None:
    """Write the file from which pyinfra's connector takes the machine's data."""
    data = connection(state, entry) | node(state, entry)
    data |= {"ssh_user": "root", "ssh_strict_host_key_checking": "yes"}
    text = json.dumps({"data": {MACHINE: data}}, indent=1)
    (ROOT / PYINFRAS_FILE).write_text(f"{text}\n", encoding="utf-8")
