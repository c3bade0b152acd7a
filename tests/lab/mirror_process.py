"""Start, check and stop the mirror, a program of its own."""

from __future__ import annotations

import os
import secrets
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tests.lab.daemon import Daemon
from tests.lab.paths import BRIDGE_ADDRESS, MIRROR_PORT, LabPaths, mirror_url

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

    Raises `LabError` with its last words if it does not.
    """
    if _daemon(lab).pid() is not None and is_healthy():
        return
    stop_mirror(lab)
    ensure_token(lab)
    lab.documents.mkdir(parents=True, exist_ok=True)
    arguments: list[str | Path] = ["--root", lab.documents, "--bind", BRIDGE_ADDRESS]
    arguments += ["--port", str(MIRROR_PORT), "--token-file", lab.token]
    arguments += ["--log", lab.mirror_log]
    _daemon(lab).start([sys.executable, "-I", str(_PROGRAM), *arguments], is_healthy)


def stop_mirror(lab: LabPaths) -> None:
    """Stop the mirror's process group, if it runs, and return when it is gone."""
    _daemon(lab).stop()


def _daemon(lab: LabPaths) -> Daemon:
    return Daemon("mirror", lab.own)
