"""Places in which a step of the probe runs for real, each with one fault."""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[5]
SOCKET, MMAP = 41, 9
"""System calls of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl)."""
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def step(
    name: str,
    home: Path,
    place: str = "",
    refused: tuple[int, int, int, int] | None = None,
    kind: str = "cpu",
    ranks: int = 2,
    unset: Sequence[str] = (),
    **environment: str,
) -> dict[str, Any]:
    """The answer of one step in a process of its own.

    *place* is shell code that runs before it in namespaces of its own; *refused* is a system call,
    the number and value of an argument, and the error that it then gives, as systemd's filters do.
    """
    words = ["--replica", "0", "--kind", kind, "--ranks", str(ranks), "--address", "127.0.0.1"]
    program = [sys.executable, "-B", "-m", "b200kit.node", "_engine-step", name, *words]
    entered = ["unshare", "-m", "sh", "-c", f'{place}\nexec "$@"', "sh", *program]
    done = subprocess.run(
        entered if place else program,
        env=_environment(home, unset, environment),
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=(lambda: refuse(*refused)) if refused else None,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _environment(home: Path, unset: Sequence[str], own: Mapping[str, str]) -> dict[str, str]:
    values = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "deploy"),
        "HOME": str(home),
        "TMPDIR": str(home),
        "NCCL_SOCKET_IFNAME": "lo",
        "GLOO_SOCKET_IFNAME": "lo",
        **own,
    }
    return {key: value for key, value in values.items() if key not in unset}


def refuse(call: int, argument: int, value: int, number: int) -> None:
    """A filter of this process's system calls: one that has a value as an argument fails."""
    rules = [
        (_LOAD, 0, 0, 0),
        (_EQUAL, 0, 3, call),
        (_LOAD, 0, 0, 16 + 8 * argument),
        (_EQUAL, 0, 1, value),
        (_RETURN, 0, 0, _ERRNO | number),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    kept = ctypes.create_string_buffer(code)
    head = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(_PR_SET_SECCOMP, _FILTER, head, 0, 0) == 0, os.strerror(ctypes.get_errno())
