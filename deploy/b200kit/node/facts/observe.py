"""The observation: one JSON document with everything a decision about the node needs.

Every part is read on its own and side by side; what fails is unmeasured with the reason and the
rest is still there. The document is described by b200kit/node/state/node-state.yaml.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import b200kit
from b200kit.node.facts import (
    automatic,
    certificates,
    containers,
    dpkg,
    driver_module,
    fabric_manager,
    firewall,
    kernel,
    logs,
    models,
    numa,
    pci,
    processes,
    readiness,
    storage,
    system,
    xid,
)
from b200kit.node.facts.nvml.client import Worker
from b200kit.node.lib import documents, lock, managed_files, program, timestamp
from b200kit.node.lib.program import claim_stdout, emit
from b200kit.node.lib.readings import attempt, said_by, unmeasured
from b200kit.node.state import engine_probe
from b200kit.node.state.plausible import plausible
from b200kit.node.state.view import SCHEMA

NVML_TIMEOUT_S = 20.0
_PROBES = Path(engine_probe.DIRECTORY)
FABRIC_UNITS = (
    "nvidia-fabricmanager.service",
    "nvidia-persistenced.service",
    "nvidia-dcgm.service",
)
"""Units every verdict needs, read whether asked for or not; DCGM may hold a GPU that is tested."""


def observe(ask: dict[str, Any], nvml_timeout: float = NVML_TIMEOUT_S) -> dict[str, Any]:
    """The whole NodeState. Takes as long as its slowest part; NVML at most its time-out."""
    started = time.monotonic()
    worker = Worker(nvml_timeout, ask.get("leave_out", ()))
    with ThreadPoolExecutor(max_workers=16) as pool:
        futures = {key: pool.submit(guarded, read) for key, read in parts(ask).items()}
        document: dict[str, Any] = {key: future.result() for key, future in futures.items()}
    names = ask.get("placement", [])
    document["processes"] = attempt(lambda: processes.processes(document["units"], names))
    document |= worker.result()
    if "lock" in ask:
        document["lock"] = attempt(lambda: lock.request(ask["lock"]))
    head = {
        "schema": SCHEMA,
        "taken_at": timestamp.now(),
        "took_s": round(time.monotonic() - started, 3),
    }
    return plausible({**head, "tool": tool(), **document})


def parts(ask: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Top-level key to the function that reads it."""
    log, listing = xid.once(xid.kernel_log), xid.once(system.listing)
    return {
        "host": system.host,
        "cpus": numa.cpus,
        "numa": numa.numa,
        "pci": lambda: {"gpus": attempt(pci.gpus), "nics": attempt(pci.nics)},
        "modules": numa.modules,
        "kernel": lambda: kernel.kernel(ask),
        "fabric_manager": fabric_manager.fabric_manager,
        "packages": lambda: system.packages(ask.get("packages", []), listing),
        "dpkg": lambda: dpkg.dpkg(listing),
        "driver_module": driver_module.driver_module,
        "boot": driver_module.boot,
        "readiness": readiness.readiness,
        "units": lambda: system.units(units(ask)),
        "xids": lambda: xid.found(xid.XID, log),
        "sxids": lambda: xid.found(xid.SXID, log),
        "files": lambda: managed_files.files(ask.get("files", []), ask.get("secrets", {})),
        "disks": lambda: system.disks(ask.get("disks", [])),
        "listening": system.listening,
        "notes": managed_files.notes,
        "engine_probes": lambda: managed_files.of_each(_PROBES, engine_probe.NAME),
        **asked_parts(ask, listing),
    }


def units(ask: Mapping[str, Any]) -> list[str]:
    """The units that are looked at, each once."""
    return list(dict.fromkeys([*FABRIC_UNITS, *ask.get("units", []), *ask.get("placement", [])]))


def asked_parts(ask: dict[str, Any], listing: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    """The parts that are read only when they are asked for."""
    readers: dict[str, Callable[[Any], Any]] = {
        "automatic": lambda asked: automatic.automatic(asked, listing),
        "certificates": certificates.certificates,
        "containers": containers.containers,
        "storage": storage.storage,
        "firewall": lambda _: firewall.firewall(),
        "logs": logs.logs,
        "weights": models.weights,
    }
    return {key: partial(read, ask[key]) for key, read in readers.items() if key in ask}


def guarded(read: Callable[[], Any]) -> Any:
    """A part, or why it is not there: a fault in one reader must not cost the document."""
    try:
        return read()
    except Exception as error:
        return unmeasured(said_by(error))


def tool() -> dict[str, Any]:
    """Version of this program and, when it runs as a zipapp, its digest."""
    archive = program.LOCATION
    digest: Any = unmeasured("runs from a source tree")
    if archive.is_file():
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return {"version": getattr(b200kit, "__version__", unmeasured("no version")), "sha256": digest}


def parse_ask(encoded: str) -> dict[str, Any]:
    """The request, base64 of JSON; ValueError when it is no JSON object."""
    return documents.decode(documents.Object, base64.b64decode(encoded, validate=True))


def main(args: list[str]) -> int:
    """Print the document on stdout; 0 even when parts are unmeasured, 2 for a bad request."""
    parser = argparse.ArgumentParser(prog="observe")
    parser.add_argument("--ask", type=parse_ask, default={})
    timeout = float(os.environ.get("B200KIT_NVML_TIMEOUT", NVML_TIMEOUT_S))
    parser.add_argument("--nvml-timeout", type=float, default=timeout)
    options = parser.parse_args(args)
    emit_to = claim_stdout()
    emit(emit_to, observe(options.ask, options.nvml_timeout))
    return 0
