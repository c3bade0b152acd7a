"""One JSON document on standard output, whatever libraries below print there themselves."""

from __future__ import annotations

import json
import os
import sys


def claim_stdout() -> int:
    """A private file descriptor for the document; from here on descriptor 1 goes nowhere.

    NVML and what it loads are C code and may write to descriptor 1 directly.
    """
    sys.stdout.flush()
    private = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return private


def emit(descriptor: int, document: object) -> None:
    """Write one compact JSON line in full to a descriptor."""
    data = (json.dumps(document, separators=(",", ":"), ensure_ascii=True) + "\n").encode()
    while data:
        data = data[os.write(descriptor, data) :]
