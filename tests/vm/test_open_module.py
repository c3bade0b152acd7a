"""NVIDIA's open kernel module: built by dkms for a kernel of Debian 12, tried on that kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib import apt_output
from b200kit.run.zipapp import build
from tests.lab.lab import say
from tests.lab.locks import shared_lock
from tests.lab.own_network import outside
from tests.lab.paths import lab_paths
from tests.lab.vm import open_module
from tests.lab.vm.open_module import KERNEL, MODULE, VERSION, inside

pytestmark = pytest.mark.vm
HEADERLESS = "6.1.0-99-amd64"
_READ = """\
import json, sys
sys.path.insert(0, "/node.pyz")
from b200kit.node.facts import driver_module, readiness
print(json.dumps({"module": driver_module.driver_module(), "ready": readiness.readiness()}))
"""
# As PID 1: what modprobe and the kernel say, what our program reads, and the same without headers.
_LOAD = f"""\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t tmpfs tmpfs /run
mount -o remount,rw /
answer() {{ echo "<$1>"; shift; "$@" 2>&1; echo "code $?"; }}
{{
    answer modprobe modprobe {MODULE}
    answer log sh -c 'dmesg | grep NVRM'
    answer taints cat /sys/module/drm/taint /proc/sys/kernel/tainted
    answer loaded cat /proc/modules
    answer read python3 -I /read.py
    mv /lib/modules/{KERNEL}/build /headers
    answer headerless python3 -I /read.py
    answer end true
}} > /dev/console
sync
echo o > /proc/sysrq-trigger
sleep 60
"""


@pytest.fixture(scope="module")
def tree() -> Path:
    """A guest's tree in which dkms has built and installed the module."""
    lab = lab_paths()
    with shared_lock(lab.root), outside():
        return open_module.ensure_tree(lab, say)


@pytest.fixture(scope="module")
def booted(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the tree's own kernel says, by question; each answer ends with its exit code."""
    program, _ = build()
    files = {open_module.PROGRAM: _LOAD.encode(), "/read.py": _READ.encode(), "/node.pyz": program}
    console = open_module.boot(tree, tmp_path_factory.mktemp("machine"), files)
    answers: dict[str, list[str]] = {}
    for line in console.replace("\r", "").splitlines():
        if line.startswith("<") and line.endswith(">"):
            answers[line[1:-1]] = []
        elif answers:
            answers[list(answers)[-1]].append(line)
    assert "end" in answers, console[-3000:]
    return answers


def modinfo(tree: Path, field: str) -> str:
    """One field of the built module, as kmod reads it."""
    return inside(tree, f"modinfo -k {KERNEL} -F {field} {MODULE}").stdout.strip()


def read(answer: list[str]) -> dict[str, Any]:
    """What our program read on the machine."""
    assert answer[-1] == "code 0", answer
    found: dict[str, Any] = json.loads(answer[-2])
    return found


def test_dkms_built_all_of_the_driver_for_the_kernel(tree: Path) -> None:
    status = inside(tree, "dkms status").stdout
    assert f"{MODULE}/{VERSION}, {KERNEL}, x86_64: installed" in status
    built = {path.name for path in (tree / f"lib/modules/{KERNEL}/updates/dkms").iterdir()}
    parts = ("", "-drm", "-modeset", "-peermem", "-uvm")
    assert {f"{MODULE}{part}.ko" for part in parts} <= built


def test_module_is_open_of_its_version_and_for_that_kernel(tree: Path) -> None:
    assert modinfo(tree, "license") == "Dual MIT/GPL"
    assert modinfo(tree, "version") == VERSION
    assert modinfo(tree, "vermagic").split()[0] == KERNEL
    assert f"nvidia/{VERSION}/gsp_ga10x.bin" in modinfo(tree, "firmware").split()


def test_module_is_signed_with_the_key_that_a_person_would_enroll(tree: Path) -> None:
    assert modinfo(tree, "signer") == "DKMS module signing key"
    key = "openssl x509 -inform DER -in /var/lib/dkms/mok.pub -noout -serial"
    serial = inside(tree, key).stdout.strip().partition("=")[2]
    assert serial
    assert modinfo(tree, "sig_key").replace(":", "") == serial


def test_kernel_without_headers_gets_no_module_and_dkms_says_so(tree: Path) -> None:
    done = inside(tree, f"dkms build -m {MODULE} -v {VERSION} -k {HEADERLESS}")
    assert done.returncode != 0
    assert f"kernel headers for kernel {HEADERLESS} cannot be found" in done.stdout
    # It is no failed build: apt's log of it has no line of a compiler.
    assert apt_output.dkms_failure(done.stdout.splitlines()) is None


def test_kernel_takes_the_module_and_finds_no_gpu(booted: dict[str, list[str]]) -> None:
    said = " ".join(booted["modprobe"])
    assert "No such device" in said
    assert booted["modprobe"][-1] == "code 1"
    # Format, version magic, symbols and signature were right: the driver itself answered.
    assert any("No NVIDIA GPU found" in line for line in booted["log"])
    assert not any(line.startswith("nvidia ") for line in booted["loaded"])


def test_our_program_reads_it_on_that_kernel(booted: dict[str, list[str]]) -> None:
    found = read(booted["read"])
    assert found["module"]["running_kernel"] == KERNEL
    assert found["module"]["built_for"] == {KERNEL: VERSION}
    assert found["ready"]["headers"] == {KERNEL: True}
    # A BIOS has no Secure Boot; the key is there, and no firmware knows it.
    assert (found["ready"]["secure_boot"], found["ready"]["signing_key_enrolled"]) == (None, False)
    assert found["ready"]["driver"] == {"files": {}, "runfile": False}


def test_our_program_sees_that_headers_are_missing(booted: dict[str, list[str]]) -> None:
    assert read(booted["headerless"])["ready"]["headers"] == {KERNEL: False}
