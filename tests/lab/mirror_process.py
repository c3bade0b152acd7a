"""Start, check and stop the mirror as a process group of its own.

It is known by its process id *and* its start time, so that a process that got the same id later is
never taken for it.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.lab.paths import BRIDGE_ADDRESS, MIRROR_PORT, LabError, LabPaths, mirror_url
from tests.lab.shell import detach

_PROGRAM = Path(__file__).with_name("mirror.py")


def ensure_token(lab: LabPaths) -> str:
    """Return the model store's bearer token, made at random the first time."""
    return _ensure_secret(lab.token)


def ensure_api_key(lab: LabPaths) -> str:
    """Return the key clients of the endpoint must present, made at random the first time."""
    return _ensure_secret(lab.api_key)


def _ensure_secret(path: Path) -> str:
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"lab-{secrets.token_hex(16)}\n")
    return path.read_text(encoding="utf-8").strip()


def start_time(pid: int) -> str | None:
    """Return a process's start time (clock ticks since boot), or None if there is no process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def mirror_pid(lab: LabPaths) -> int | None:
    """Return the process id of this lab's mirror if it is alive."""
    try:
        record = json.loads(_record(lab).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return int(record["pid"]) if start_time(record["pid"]) == record["started"] else None


def is_healthy() -> bool:
    """Return whether the mirror answers on the bridge (whatever proxy this machine uses)."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{mirror_url()}/healthz", timeout=5) as reply:
            return bool(reply.status == 204)
    except (urllib.error.URLError, OSError):
        return False


def start_mirror(lab: LabPaths) -> None:
    """Start the mirror unless it runs, and return when it answers.

    Raises `LabError` with its last words if it does not within 10 s.
    """
    if mirror_pid(lab) is not None and is_healthy():
        return
    stop_mirror(lab)
    ensure_token(lab)
    lab.mirror.mkdir(parents=True, exist_ok=True)
    output = lab.root / "mirror.out"
    arguments: list[str | Path] = ["--root", lab.mirror, "--bind", BRIDGE_ADDRESS]
    arguments += ["--port", str(MIRROR_PORT), "--token-file", lab.token]
    arguments += ["--log", lab.root / "mirror-access.log"]
    output.unlink(missing_ok=True)
    program = [sys.executable, "-I", str(_PROGRAM), *arguments]
    pid = detach(program, output, lab.root / "mirror.pid")
    _record(lab).write_text(json.dumps({"pid": pid, "started": start_time(pid)}))
    end = time.monotonic() + 10
    while not is_healthy():
        if start_time(pid) is None or time.monotonic() > end:
            stop_mirror(lab)
            words = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            said = words[-1] if words else "no answer within 10 s"
            raise LabError(f"the mirror did not start on {mirror_url()}: {said}")
        time.sleep(0.05)


def stop_mirror(lab: LabPaths) -> None:
    """Stop the mirror's process group, if it runs, and return when it is gone."""
    pid = mirror_pid(lab)
    if pid is not None:
        os.killpg(pid, signal.SIGTERM)
        end = time.monotonic() + 5
        while start_time(pid) is not None:
            if time.monotonic() > end:
                os.killpg(pid, signal.SIGKILL)
            time.sleep(0.02)
    _record(lab).unlink(missing_ok=True)


def _record(lab: LabPaths) -> Path:
    return lab.root / "mirror.json"
