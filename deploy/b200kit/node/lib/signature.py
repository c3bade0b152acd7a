"""The node's signature under what it vouches for: `ssh-keygen -Y`, with its SSH host key.

That key is pinned wherever somebody connects to the node, so that nobody has to be given another.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from b200kit.node.lib.readings import COMMAND_TIMEOUT_S

NAMESPACE = "b200kit-proof"
ACCEPTANCE = "b200kit-acceptance"
"""What a signature is under: one under a proof is none under an acceptance run."""
KEY = Path("/etc/ssh/ssh_host_ed25519_key")


def sign(content: bytes, key: Path = KEY, namespace: str | None = None) -> bytes:
    """An armoured signature under *content*. Raises OSError: not signed."""
    argv = ["ssh-keygen", "-Y", "sign", "-q", "-n", namespace or NAMESPACE, "-f", str(key)]
    try:
        done = subprocess.run(
            argv, input=content, capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"ssh-keygen took more than {COMMAND_TIMEOUT_S:g} s") from error
    if done.returncode != 0 or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE"):
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
        raise OSError(f"{key}: ssh-keygen exited {done.returncode}: {said[-1]}")
    return done.stdout
